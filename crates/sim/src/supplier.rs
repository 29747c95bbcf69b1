//! Where the data of an access came from.

/// Who had the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Supplier {
    /// The core's own L1.
    L1,
    /// On its way into the L1 already: a fill buffer.
    FillBuffer,
    /// The core's L2.
    L2,
    /// The shared cache, no other core involved.
    L3,
    /// Another core of the package had it unmodified and was asked.
    OtherCoreClean,
    /// Another core of the package had it modified.
    OtherCoreModified,
    /// Memory of this package.
    LocalMemory,
    /// Memory of another package.
    RemoteMemory,
    /// A cache of another package had it modified.
    RemoteCacheModified,
    /// A cache of another package had it unmodified and sent it.
    RemoteCacheClean,
}

/// How the address was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// First-level TLB.
    L1,
    /// Second-level TLB.
    L2,
    /// A page walk.
    Walk,
}
