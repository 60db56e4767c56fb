"""Pictures that were sent: how large they may be, and how they are decoded."""

import io
import tempfile

from PIL import Image
from torch import Tensor

from gradsnap.data.images import image_formats
from gradsnap.errors import GradsnapError
from gradsnap.inference.model import Model
from gradsnap.serve.refusals import Refusal, unreadable


def check_picture(data: bytes, pixels: int) -> None:
    """Refuses what is no picture, or has too many pixels; decodes nothing.

    Raises:
        Refusal: it is either.
    """
    try:
        with Image.open(io.BytesIO(data), formats=image_formats()) as image:
            width, height = image.size
    except Exception as error:  # a header can make a decoder raise nearly anything
        raise unreadable("this is no picture that can be read here") from error
    if width * height > pixels:
        raise Refusal(
            413, f"the picture has {width} × {height} pixels, at most {pixels:,} go"
        )


def decode_upload(model: Model, data: bytes, pixels: int) -> Tensor:
    """The picture as the model reads it, uint8 (1, channels, height, width).

    Raises:
        Refusal: it is no picture, damaged, or too large.
    """
    check_picture(data, pixels)
    with tempfile.NamedTemporaryFile(prefix="gradsnap-") as file:
        file.write(data)
        file.flush()
        try:
            return model.decode_image(file.name)
        except GradsnapError as error:
            raise unreadable("the picture is damaged") from error
