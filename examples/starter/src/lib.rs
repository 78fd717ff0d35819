//! A small complete service to copy: orders over HTTP, tasks that do the work, an outbox that tells the world.

pub mod service;
pub mod tasks;
pub mod web;
