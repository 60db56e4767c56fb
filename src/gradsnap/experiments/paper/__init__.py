"""The paper's numbers, as printed: one module for each table, one for the figures.

S. Liu, H. Lu, "Accurate deep representation quantization with gradient snapping layer
for similarity search". A number is kept with the table's label; nothing is computed.
"""
