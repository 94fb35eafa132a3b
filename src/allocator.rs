//! Memory for a program that compiles one policy and is gone, or waits.
//!
//! Compiling makes some ten thousand small values. The C library's allocator finds room for each of them in a hundred instructions and
//! puts a header before it; that was a third of all instructions of a start, and every page more is one that the kernel has to clear.
//! Here a small value is cut from one piece of memory, or from what a value of about its size has left there. All else is the C
//! library's: what is large, what other threads need, and what the piece has no room for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// A default policy takes a third of it. Pages that nobody touches cost nothing.
const SIZE: usize = 1 << 20;

/// Sizes are rounded up to a multiple of it, and everything is aligned to it.
const GRAIN: usize = 16;

/// What is larger comes from the C library, which can enlarge it in its place.
const LARGEST: usize = 1024;

/// Give it to a binary with `#[global_allocator]`.
#[derive(Debug)]
pub struct Small;

struct Piece(UnsafeCell<State>);

#[repr(C, align(4096))]
struct State {
    memory: [u8; SIZE],
    /// How much of the memory has been cut.
    cut: usize,
    /// The first free place of each size, which holds the address of the next.
    free: [*mut u8; LARGEST / GRAIN],
}

// SAFETY: one thread alone looks into it: see `is_ours`.
#[allow(unsafe_code)]
unsafe impl Sync for Piece {}

static PIECE: Piece =
    Piece(UnsafeCell::new(State { memory: [0; SIZE], cut: 0, free: [ptr::null_mut(); LARGEST / GRAIN] }));

/// Whether the piece belongs to this thread. It is that of the first which asks, and so of the main one.
fn is_ours() -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum Owner {
        Unknown,
        Us,
        Another,
    }
    thread_local! {
        static OWNER: Cell<Owner> = const { Cell::new(Owner::Unknown) };
    }
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    if OWNER.get() == Owner::Unknown {
        let is_taken = IS_TAKEN.swap(true, Ordering::Relaxed);
        OWNER.set(if is_taken { Owner::Another } else { Owner::Us });
    }
    OWNER.get() == Owner::Us
}

fn is_small(layout: Layout) -> bool {
    layout.size() <= LARGEST && layout.align() <= GRAIN
}

/// Which of the sizes. A layout with no size at all is never asked for.
fn class(size: usize) -> usize {
    size.saturating_sub(1) / GRAIN
}

fn is_within(place: *mut u8) -> bool {
    (place as usize).wrapping_sub(PIECE.0.get() as usize) < SIZE
}

/// Room for a small value, if there is any.
#[allow(unsafe_code)]
fn take(layout: Layout) -> Option<*mut u8> {
    if !is_small(layout) || !is_ours() {
        return None;
    }
    // SAFETY: it is ours, and nothing that is called here asks for memory, so there is no other reference.
    let state = unsafe { &mut *PIECE.0.get() };
    let class = class(layout.size());
    let place = state.free[class];
    if !place.is_null() {
        // SAFETY: `give` wrote it there, and who had the place has it no more.
        state.free[class] = unsafe { place.cast::<*mut u8>().read() };
        return Some(place);
    }
    let start = state.cut;
    state.cut = Some(start + (class + 1) * GRAIN).filter(|end| *end <= SIZE)?;
    Some(PIECE.0.get().cast::<u8>().wrapping_add(start))
}

/// Takes a place of the piece back.
#[allow(unsafe_code)]
fn give(place: *mut u8, size: usize) {
    // What another thread is done with stays as it is.
    if is_ours() {
        // SAFETY: as in `take`. The place is free, aligned, and as large as the smallest one, so there is room for an address.
        unsafe {
            let state = &mut *PIECE.0.get();
            let class = class(size);
            place.cast::<*mut u8>().write(state.free[class]);
            state.free[class] = place;
        }
    }
}

// SAFETY: a place of the piece is had by one value at a time, and is as large and as aligned as was asked for; by its address one can
// tell whose it is. All else is between the caller and the C library.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Small {
    // Without this it is copied to each of some ten thousand places, which is a megabyte.
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises is handed on.
        take(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    #[inline(never)]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if is_within(place) {
            give(place, layout.size());
        } else {
            // SAFETY: what is not of the piece is of the C library.
            unsafe { System.dealloc(place, layout) }
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_within(place) {
            // SAFETY: what is not of the piece is of the C library.
            return unsafe { System.realloc(place, layout, size) };
        }
        if size <= LARGEST && class(size) == class(layout.size()) {
            return place;
        }
        // SAFETY: the caller promises that `size` goes with this alignment, and that `place` is of `layout`.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(place, new, size.min(layout.size()));
                self.dealloc(place, layout);
            }
            new
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    /// A place and what is written all over it.
    struct Had {
        place: *mut u8,
        layout: Layout,
        mark: u8,
    }

    impl Had {
        fn fill(&self) {
            // SAFETY: the place is as large as its layout.
            unsafe { ptr::write_bytes(self.place, self.mark, self.layout.size()) };
        }

        fn is_intact(&self, size: usize) -> bool {
            // SAFETY: `size` is not larger than the place, and `fill` wrote there.
            unsafe { std::slice::from_raw_parts(self.place, size) }.iter().all(|byte| *byte == self.mark)
        }
    }

    fn churn(mut random: u32) {
        let mut next = |below: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % below
        };
        let mut all: Vec<Had> = Vec::new();
        for step in 0..30_000 {
            // More is asked for than given back, so that the piece comes to its end.
            let largest = if next(9) == 0 { 3 * LARGEST } else { 200 };
            let size = 1 + next(largest);
            match (next(8), all.len()) {
                (0..=2, 1..) => {
                    let had = all.swap_remove(next(all.len()));
                    assert!(had.is_intact(had.layout.size()), "step {step}");
                    // SAFETY: it was given for this layout, and is had no more.
                    unsafe { Small.dealloc(had.place, had.layout) };
                }
                (3, 1..) => {
                    let index = next(all.len());
                    let had = &mut all[index];
                    let kept = size.min(had.layout.size());
                    // SAFETY: it was given for this layout.
                    had.place = unsafe { Small.realloc(had.place, had.layout, size) };
                    assert!(had.is_intact(kept), "step {step}");
                    had.layout = Layout::from_size_align(size, had.layout.align()).unwrap();
                    had.fill();
                }
                _ => {
                    let layout = Layout::from_size_align(size, 1 << next(7)).unwrap();
                    // SAFETY: the size is not 0.
                    let place = unsafe { Small.alloc(layout) };
                    assert!(!place.is_null() && (place as usize).is_multiple_of(layout.align()), "step {step}");
                    all.push(Had { place, layout, mark: step as u8 });
                    all[all.len() - 1].fill();
                }
            }
        }
        for had in all {
            assert!(had.is_intact(had.layout.size()));
            // SAFETY: it was given for this layout, and is had no more.
            unsafe { Small.dealloc(had.place, had.layout) };
        }
    }

    #[test]
    fn no_two_values_share_a_place_in_any_thread() {
        std::thread::scope(|scope| {
            for seed in 1..=3 {
                scope.spawn(move || churn(seed));
            }
        });
    }

    #[test]
    fn what_one_thread_is_given_another_can_give_back() {
        let layout = Layout::from_size_align(24, 8).unwrap();
        // SAFETY: the size is not 0.
        let place = unsafe { Small.alloc(layout) } as usize;
        // SAFETY: it was given for this layout, and is had no more.
        std::thread::spawn(move || unsafe { Small.dealloc(place as *mut u8, layout) }).join().unwrap();
    }
}
