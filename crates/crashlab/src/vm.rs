//! A virtual machine whose kernel is killed.
