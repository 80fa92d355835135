//! A file system in user space that keeps no more than POSIX promises.
