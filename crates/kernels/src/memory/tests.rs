//! Buffers on the real kernel. What the machine may refuse is checked against the reason it gives.

use proptest::prelude::*;

use super::*;

fn small() -> Placement {
    Placement { pages: PagePolicy::Small, node: None }
}

#[test]
fn aligned_zeroed_and_as_long_as_asked() {
    for (len, placement) in [(1, small()), (4097, small()), (4097, Placement::default()), (3 << 20, small())]
    {
        let mut buffer = Buffer::allocate(Bytes(len), placement).expect("memory");
        assert_eq!(buffer.as_ptr() as u64 % HUGE_PAGE.0, 0);
        assert_eq!(buffer.len(), Bytes(len));
        assert_eq!(buffer.as_slice::<u8>().len() as u64, len);
        assert_eq!(buffer.as_mut_slice::<u64>().len() as u64, len / 8);
        buffer.touch();
        assert!(buffer.as_slice::<u8>().iter().all(|&byte| byte == 0));
        buffer.as_mut_slice::<u8>().fill(0xa5);
        assert!(buffer.as_slice::<u8>().iter().all(|&byte| byte == 0xa5));
    }
}

#[test]
fn unmapped_when_dropped() {
    let len = Bytes::gib(8);
    // Address space alone would run out after 16 Ki of these if they stayed mapped.
    for _ in 0..20_000 {
        reserve(len.0 as usize).expect("address space");
    }
}

#[test]
fn touched_pages_are_resident_and_their_size_is_reported() {
    let len = Bytes::mib(4);
    for pages in [PagePolicy::Small, PagePolicy::Huge] {
        let mut buffer = Buffer::allocate(len, Placement { pages, node: None }).expect("memory");
        let before = buffer.backing();
        buffer.touch();
        let (Some(before), Some(after)) = (before, buffer.backing()) else {
            assert!(fs::read("/proc/self/smaps").is_err(), "smaps is readable but was not understood");
            continue;
        };
        assert_eq!(before, Backing::default(), "{pages:?}: resident before the touch");
        assert_eq!(after.total, len, "{pages:?}");
        match pages {
            PagePolicy::Small => assert_eq!(after.huge, Bytes(0)),
            PagePolicy::Huge => {
                assert!(after.huge <= after.total && after.huge.0 % HUGE_PAGE.0 == 0, "{after:?}");
                if let PageAdvice::Refused { errno } = buffer.advice() {
                    assert_eq!((errno, after.huge), (libc::EINVAL, Bytes(0)), "refused, yet huge pages came");
                }
            }
        }
    }
}

/// Whether the byte at `address` can be read, by letting the kernel copy it into a pipe.
fn readable(address: *const u8) -> bool {
    use std::os::fd::AsRawFd;
    let (_reader, writer) = io::pipe().expect("a pipe");
    // SAFETY: the kernel checks the address and answers EFAULT where it cannot read.
    let written = unsafe { libc::write(writer.as_raw_fd(), address.cast(), 1) };
    assert!(written == 1 || io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT));
    written == 1
}

#[test]
fn nothing_can_be_reached_beside_a_buffer() {
    let page = rustix::param::page_size();
    for (len, placement) in [(page, small()), (3 * page, small()), (2 << 20, Placement::default())] {
        // Several, as the kernel may or may not start them on a huge page's boundary.
        let buffers: Vec<_> =
            (0..8).map(|_| Buffer::allocate(Bytes(len as u64), placement).expect("memory")).collect();
        for start in buffers.iter().map(Buffer::as_ptr) {
            assert!(readable(start) && readable(start.wrapping_add(len - 1)));
            assert!(!readable(start.wrapping_sub(1)) && !readable(start.wrapping_add(len)));
        }
    }
}

proptest! {
    #[test]
    fn guards_fit_wherever_the_kernel_maps(page_bits in 12u32..17, number in 0usize..1 << 30) {
        let page = 1 << page_bits;
        let (base, huge) = (number * page, HUGE_PAGE.0 as usize);
        let before = guard(base, page);
        prop_assert_eq!((base + before) % huge, 0);
        prop_assert!(before >= page && before + page <= spare(page));
    }
}

#[test]
fn neighbours_keep_their_own_page_counts() {
    let mut buffers: Vec<_> =
        (0..4).map(|_| Buffer::allocate(Bytes::mib(2), small()).expect("memory")).collect();
    buffers[1].touch();
    buffers[3].touch();
    let resident: Option<Vec<_>> = buffers.iter().map(|b| b.backing().map(|backing| backing.total)).collect();
    if let Some(resident) = resident {
        assert_eq!(resident, [Bytes(0), Bytes::mib(2), Bytes(0), Bytes::mib(2)]);
    }
}

#[test]
fn bad_lengths() {
    assert!(matches!(Buffer::allocate(Bytes(0), small()), Err(MemoryError::Empty)));
    for len in [u64::MAX, i64::MAX as u64] {
        assert!(matches!(Buffer::allocate(Bytes(len), small()), Err(MemoryError::TooLarge { .. })));
    }
    // Larger than any user address space, so refused whatever the overcommit setting.
    let error = Buffer::allocate(Bytes(1 << 62), small()).expect_err("no machine has this");
    assert!(
        matches!(&error, MemoryError::Refused { source, .. } if source.raw_os_error() == Some(libc::ENOMEM))
    );
    assert!(error.to_string().contains("4194304 TiB"), "{error}");
}

#[test]
fn nodes_outside_the_machine() {
    let nodes: CpuSet = "0-1".parse().expect("list");
    assert!(check_node(1, Some(nodes.clone())).is_ok());
    let error = check_node(7, Some(nodes)).expect_err("node 7 is not listed");
    assert_eq!(error.to_string(), "NUMA node 7 has no memory on this machine; nodes with memory: 0-1");
    assert!(check_node(7, None).is_ok());
    assert!(matches!(check_node(u32::MAX, None), Err(MemoryError::BindRefused { node: u32::MAX, .. })));
    let placement = Placement { pages: PagePolicy::Small, node: Some(30_000) };
    let error = Buffer::allocate(Bytes(4096), placement).expect_err("no machine has 30000 nodes");
    assert!(error.to_string().contains("30000"), "{error}");
}

/// The node of the page at `address`, by asking the kernel.
fn node_of(address: *const u8) -> io::Result<u32> {
    let mut node: libc::c_int = -1;
    const MPOL_F_NODE: libc::c_ulong = 1;
    const MPOL_F_ADDR: libc::c_ulong = 2;
    let flags = MPOL_F_NODE | MPOL_F_ADDR;
    // SAFETY: `node` is a live int, no mask is passed, and the address is only looked up.
    let status = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &mut node, std::ptr::null_mut::<u64>(), 0usize, address, flags)
    };
    if status == 0 { Ok(node as u32) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn bound_pages_lie_on_their_node() {
    for node in nodes_with_memory().unwrap_or_else(|| CpuSet::from_iter([0])).iter() {
        match Buffer::allocate(Bytes::kib(64), Placement { pages: PagePolicy::Small, node: Some(node) }) {
            Ok(mut buffer) => {
                buffer.touch();
                if let Ok(found) = node_of(buffer.as_ptr()) {
                    assert_eq!(found, node);
                }
            }
            Err(MemoryError::BindRefused { node: named, source }) => {
                assert_eq!(named, node);
                // No NUMA in the kernel, forbidden by a filter, or outside our cpuset.mems.
                let errno = source.raw_os_error();
                assert!(matches!(errno, Some(libc::ENOSYS | libc::EPERM | libc::EINVAL)), "{source}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn moves_between_threads() {
    let mut buffer = Buffer::allocate(Bytes::kib(64), Placement::default()).expect("memory");
    let buffer = std::thread::spawn(move || {
        buffer.touch();
        buffer.as_mut_slice::<u64>()[0] = 42;
        buffer
    })
    .join()
    .expect("the owner thread");
    assert_eq!(buffer.as_slice::<u64>()[0], 42);
}
