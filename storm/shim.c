/* Counts the calls by which a process changes files below a folder, and fails or kills
 * it at the n-th. Loaded by LD_PRELOAD, armed by storm_arm().
 *
 * Seen are the calls of Python, torch, safetensors (Rust) and Arrow (C++), which go
 * through the C library's symbols, and fwrite, fflush and fclose, through which FAISS
 * writes. Memory that is mapped and written is not seen; gradsnap maps to read only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT = 0, KILL = 1, TEAR = 2, FAIL = 3, FULL = 4 };

static char watched[4096];
static size_t watched_length;
static long calls, chosen;
static int mode, failure, record = -1;

/* Arms the shim: what lies below `folder` counts; at call `number` it does `what`. */
void storm_arm(const char *folder, long number, int what, int error, int log) {
  strncpy(watched, folder, sizeof watched - 1);
  watched_length = strlen(watched);
  calls = 0;
  chosen = number;
  mode = what;
  failure = error;
  record = log;
}

long storm_calls(void) { return calls; }

static int below(const char *path) {
  return watched_length && !strncmp(path, watched, watched_length);
}

/* The path of an open file; empty if it is none of ours. */
static const char *path_of(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, 4095);
  path[length > 0 ? length : 0] = 0;
  return below(path) ? path : "";
}

static void note(const char *what, const char *one, const char *other, long at,
                 const void *data, size_t size) {
  if (record < 0) return;
  char line[9000];
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "write");
  int length = snprintf(line, sizeof line, "%s\t%s\t%s\t%ld\t%zu\n", what, one, other, at,
                        size);
  if (real(record, line, length) != length) abort();
  for (size_t done = 0; done < size;) {
    ssize_t some = real(record, (const char *)data + done, size - done);
    if (some <= 0) abort();
    done += some;
  }
}

/* Whether this call has to fail; does not come back where it has to kill. A full disk
 * stays full for whatever takes space, and lets files be removed. */
static int struck(const char *what) {
  if (!watched_length) return 0;
  note("call", what, "", 0, NULL, 0);
  int takes = !strcmp(what, "write") || !strcmp(what, "create") || !strcmp(what, "mkdir");
  ++calls;
  if (mode == FULL ? calls < chosen || !takes : calls != chosen) return 0;
  if (mode == KILL) kill(getpid(), SIGKILL);
  if (mode == FAIL || mode == FULL) errno = failure;
  return mode == FAIL || mode == FULL || mode == TEAR;
}

#define REAL(name, type, ...)                        \
  static type (*real)(__VA_ARGS__);                  \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static void tear(ssize_t done) {
  if (mode == TEAR) kill(getpid(), SIGKILL);
  (void)done;
}

ssize_t write(int fd, const void *data, size_t size) {
  REAL(write, ssize_t, int, const void *, size_t);
  char path[4096];
  if (!watched_length || fd == record || !*path_of(fd, path)) return real(fd, data, size);
  if (struck("write")) {
    if (mode == TEAR) tear(real(fd, data, size / 2));
    return -1;
  }
  long at = lseek(fd, 0, SEEK_CUR);
  if (fcntl(fd, F_GETFL) & O_APPEND) at = -1;
  ssize_t done = real(fd, data, size);
  if (done > 0) note("write", path, "", at, data, done);
  return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  REAL(pwrite64, ssize_t, int, const void *, size_t, off64_t);
  char path[4096];
  if (!watched_length || !*path_of(fd, path)) return real(fd, data, size, at);
  if (struck("write")) {
    if (mode == TEAR) tear(real(fd, data, size / 2, at));
    return -1;
  }
  ssize_t done = real(fd, data, size, at);
  if (done > 0) note("write", path, "", at, data, done);
  return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  return pwrite64(fd, data, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(writev, ssize_t, int, const struct iovec *, int);
  char path[4096];
  if (!watched_length || !*path_of(fd, path)) return real(fd, parts, count);
  ssize_t whole = 0;
  for (int i = 0; i < count; i++) {
    ssize_t done = write(fd, parts[i].iov_base, parts[i].iov_len);
    if (done < 0) return whole ? whole : -1;
    whole += done;
    if ((size_t)done < parts[i].iov_len) break;
  }
  return whole;
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
  REAL(fwrite, size_t, const void *, size_t, size_t, FILE *);
  char path[4096];
  if (!watched_length || !*path_of(fileno(file), path))
    return real(data, size, count, file);
  if (struck("write")) {
    if (mode == TEAR) real(data, size, count / 2, file), fflush(file);
    tear(0);
    return 0;
  }
  size_t done = real(data, size, count, file);
  if (record >= 0 && done) {
    fflush(file);
    long at = lseek(fileno(file), 0, SEEK_CUR) - (long)(done * size);
    note("write", path, "", at, data, done * size);
  }
  return done;
}

int fclose(FILE *file) {
  REAL(fclose, int, FILE *);
  char path[4096];
  int flags = fcntl(fileno(file), F_GETFL);
  int ours = watched_length && (flags & O_ACCMODE) && *path_of(fileno(file), path);
  if (ours && struck("close")) {
    if (mode == TEAR) tear(0);
    real(file);
    errno = failure;
    return EOF;
  }
  return real(file);
}

#define ON_FILE(name, what)                                   \
  int name(int fd) {                                          \
    REAL(name, int, int);                                     \
    char path[4096];                                          \
    if (!watched_length || !*path_of(fd, path)) return real(fd); \
    if (struck(what)) {                                       \
      tear(0);                                                \
      return -1;                                              \
    }                                                         \
    int done = real(fd);                                      \
    if (!done) note(what, path, "", 0, NULL, 0);              \
    return done;                                              \
  }
ON_FILE(fsync, "fsync")
ON_FILE(fdatasync, "fsync")

int ftruncate64(int fd, off64_t size) {
  REAL(ftruncate64, int, int, off64_t);
  char path[4096];
  if (!watched_length || !*path_of(fd, path)) return real(fd, size);
  if (struck("truncate")) {
    tear(0);
    return -1;
  }
  int done = real(fd, size);
  if (!done) note("truncate", path, "", size, NULL, 0);
  return done;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int renamed(int (*real)(const char *, const char *), const char *one,
                   const char *other) {
  if (!below(one) && !below(other)) return real(one, other);
  if (struck("rename")) {
    tear(0);
    return -1;
  }
  int done = real(one, other);
  if (!done) note("rename", one, other, 0, NULL, 0);
  return done;
}

int rename(const char *one, const char *other) {
  REAL(rename, int, const char *, const char *);
  return renamed(real, one, other);
}

#define ON_NAME(name, what, type, ...)                          \
  if (!below(path)) return real(__VA_ARGS__);                   \
  if (struck(what)) {                                           \
    tear(0);                                                    \
    return -1;                                                  \
  }                                                             \
  int done = real(__VA_ARGS__);                                 \
  if (!done) note(what, path, "", 0, NULL, 0);                  \
  return done;

int unlink(const char *path) {
  REAL(unlink, int, const char *);
  ON_NAME(unlink, "unlink", int, path)
}

int rmdir(const char *path) {
  REAL(rmdir, int, const char *);
  ON_NAME(rmdir, "rmdir", int, path)
}

int mkdir(const char *path, mode_t bits) {
  REAL(mkdir, int, const char *, mode_t);
  ON_NAME(mkdir, "mkdir", int, path, bits)
}

int unlinkat(int folder, const char *name, int flags) {
  REAL(unlinkat, int, int, const char *, int);
  char path[4096];
  if (!watched_length || folder == AT_FDCWD || !*path_of(folder, path))
    return real(folder, name, flags);
  if (struck("unlink")) {
    tear(0);
    return -1;
  }
  int done = real(folder, name, flags);
  size_t length = strlen(path);
  snprintf(path + length, sizeof path - length, "/%s", name);
  if (!done) note(flags ? "rmdir" : "unlink", path, "", 0, NULL, 0);
  return done;
}

/* Opening to create is a call that writes, too. */
static int opened(int (*real)(const char *, int, ...), const char *path, int flags,
                  mode_t bits) {
  if (!(flags & (O_CREAT | O_TRUNC)) || !below(path)) return real(path, flags, bits);
  if (struck("create")) {
    tear(0);
    return -1;
  }
  struct stat known;
  int was = stat(path, &known) == 0;
  int fd = real(path, flags, bits);
  if (fd >= 0 && (!was || (flags & O_TRUNC)))
    note(was ? "truncate" : "create", path, "", 0, NULL, 0);
  return fd;
}

#define OPEN(name)                                   \
  int name(const char *path, int flags, ...) {       \
    REAL(name, int, const char *, int, ...);         \
    va_list more;                                    \
    va_start(more, flags);                           \
    mode_t bits = (flags & O_CREAT) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                    \
    return opened(real, path, flags, bits);          \
  }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                  \
  FILE *name(const char *path, const char *how) {                    \
    REAL(name, FILE *, const char *, const char *);                  \
    if (*how != 'w' || !below(path)) return real(path, how);         \
    if (struck("create")) {                                          \
      tear(0);                                                       \
      return NULL;                                                   \
    }                                                                \
    FILE *file = real(path, how);                                    \
    if (file) note("truncate", path, "", 0, NULL, 0);                \
    return file;                                                     \
  }
FOPEN(fopen)
FOPEN(fopen64)
