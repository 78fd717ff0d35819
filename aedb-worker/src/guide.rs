//! Guides, one for each thing that people ask about first.

/// Delivery and fencing.
#[doc = include_str!("../docs/guide/delivery.md")]
pub mod delivery {}

/// Retries and dead tasks.
#[doc = include_str!("../docs/guide/retries.md")]
#[cfg(feature = "macros")]
pub mod retries {}

/// Checkpoints.
#[doc = include_str!("../docs/guide/checkpoints.md")]
#[cfg(feature = "macros")]
pub mod checkpoints {}

/// Follow-ups.
#[doc = include_str!("../docs/guide/follow_ups.md")]
#[cfg(feature = "macros")]
pub mod follow_ups {}

/// Shutdown.
#[doc = include_str!("../docs/guide/shutdown.md")]
#[cfg(feature = "macros")]
pub mod shutdown {}

/// Testing.
#[doc = include_str!("../docs/guide/testing.md")]
#[cfg(feature = "macros")]
pub mod testing {}

/// Upgrading tasks.
#[doc = include_str!("../docs/guide/upgrading.md")]
#[cfg(feature = "macros")]
pub mod upgrading {}

/// Operating.
#[doc = include_str!("../docs/guide/operating.md")]
pub mod operating {}
