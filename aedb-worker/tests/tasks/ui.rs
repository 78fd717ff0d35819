//! Mistakes, each with one message.
