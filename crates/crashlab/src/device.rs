//! What a device was told, and the states that a power cut may leave of it.
