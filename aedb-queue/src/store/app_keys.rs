//! The application's own keys, and effects: writes that ride in a commit.

use crate::engine::NativeWrite;
use crate::error::{Error, Result};
use crate::model::limits;
use crate::store::NewTask;

/// What an assertion expects of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// There is no such key.
    Absent,
    /// There is one, whatever its value.
    Present,
    /// Its value is this.
    Value(Vec<u8>),
}

/// One write, assertion or enqueue in a commit.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Effect {
    /// Writes a value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Deletes a key; it need not exist.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// Fails the commit with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) unless the key is as expected *before* it.
    Assert {
        /// The key.
        key: Vec<u8>,
        /// What it must be.
        expect: Expect,
    },
    /// Writes a value under a key that no commit before had: these bytes, then a number that grows with every commit of the scope.
    Append {
        /// What the key begins with.
        prefix: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A write of the database below, made by a method of that database's own.
    Native(NativeWrite),
    /// Enqueues a task in any queue of the scope.
    Enqueue {
        /// The queue.
        queue: String,
        /// The task.
        task: Box<NewTask>,
    },
}

/// Writes that become visible together with the call they ride on, or not at all.
///
/// ```
/// use aedb_queue::Effects;
///
/// let effects = Effects::new().assert_absent("order:7").put("order:7", "placed");
/// assert_eq!(effects.len(), 2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Effects(pub(crate) Vec<Effect>);

impl IntoIterator for Effects {
    type Item = Effect;
    type IntoIter = std::vec::IntoIter<Effect>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<Effect> for Effects {
    fn from_iter<I: IntoIterator<Item = Effect>>(effects: I) -> Self {
        Self(effects.into_iter().collect())
    }
}

impl Effects {
    /// No effects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a value.
    #[must_use]
    pub fn put(self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.with(Effect::Put { key: key.into(), value: value.into() })
    }

    /// Deletes a key.
    #[must_use]
    pub fn delete(self, key: impl Into<Vec<u8>>) -> Self {
        self.with(Effect::Delete { key: key.into() })
    }

    /// Commits only if there is no such key.
    #[must_use]
    pub fn assert_absent(self, key: impl Into<Vec<u8>>) -> Self {
        self.with(Effect::Assert { key: key.into(), expect: Expect::Absent })
    }

    /// Commits only if there is such a key.
    #[must_use]
    pub fn assert_present(self, key: impl Into<Vec<u8>>) -> Self {
        self.with(Effect::Assert { key: key.into(), expect: Expect::Present })
    }

    /// Commits only if the key has this value.
    #[must_use]
    pub fn assert_value(self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.with(Effect::Assert { key: key.into(), expect: Expect::Value(value.into()) })
    }

    /// Enqueues a task in a queue of the same scope.
    #[must_use]
    pub fn enqueue(self, queue: impl Into<String>, task: NewTask) -> Self {
        self.with(Effect::Enqueue { queue: queue.into(), task: Box::new(task) })
    }

    /// Writes a value under these bytes and a number in eight bytes, big end first, that grows with every commit of the scope: keys
    /// of one prefix sort in the order of their commits. The number is the microsecond of the commit or one more than the last.
    #[must_use]
    pub fn append(self, prefix: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.with(Effect::Append { prefix: prefix.into(), value: value.into() })
    }

    /// Adds one effect.
    #[must_use]
    pub fn with(mut self, effect: Effect) -> Self {
        self.0.push(effect);
        self
    }

    /// These, then the others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks names, sizes and counts.
    pub(crate) fn check(&self) -> Result<()> {
        limits::at_most("effects in a commit", limits::BATCH, self.0.len())?;
        self.0.iter().try_for_each(|effect| match effect {
            Effect::Put { key, value } => {
                limits::application_key(key)?;
                limits::at_most("value bytes", limits::VALUE_BYTES, value.len())
            }
            Effect::Append { prefix, value } => {
                limits::application_key(prefix)?;
                limits::at_most("key bytes", limits::KEY_BYTES, prefix.len() + size_of::<u64>())?;
                limits::at_most("value bytes", limits::VALUE_BYTES, value.len())
            }
            Effect::Delete { key } | Effect::Assert { key, .. } => limits::application_key(key),
            Effect::Native(_) => Ok(()),
            Effect::Enqueue { queue, task } => {
                limits::name("queue name", queue)?;
                task.check()
            }
        })
    }
}

/// A range of application keys, in byte order.
#[derive(Debug, Clone, Default)]
pub struct KeyRange {
    pub(crate) prefix: Vec<u8>,
    pub(crate) after: Option<Vec<u8>>,
    pub(crate) limit: Option<usize>,
}

impl KeyRange {
    /// The keys that begin with these bytes.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Only keys behind this one: the last of the page before.
    #[must_use]
    pub fn after(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.after = Some(key.into());
        self
    }

    /// At most this many; at most and by default 1,000.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// The refusal of a native write by a store that is not inside of AEDB.
pub(crate) fn not_aedb() -> Error {
    Error::invalid("a mutation of AEDB can only ride in a commit of a database inside of AEDB")
}
