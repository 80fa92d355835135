//! A block device in user space: a FUSE file under a loop device, whose power can be cut.
