//! Joins orders with customers through a hash table far larger than the caches, with generics and closures, so
//! that symbol names are as long as real ones. `--small-table` shrinks the hot table only.

mod options;

use std::hint::black_box;

const ORDERS: usize = 4 << 20;
const NATIONS: u64 = 256;

/// An open-addressed hash table; key 0 is a free slot.
pub struct Table<V> {
    slots: Vec<(u64, V)>,
    shift: u32,
}

impl<V: Copy + Default> Table<V> {
    /// A table with a power of two of slots.
    #[inline(never)]
    fn allocate_slots(bytes: usize) -> Self {
        let count = (bytes / size_of::<(u64, V)>()).max(64);
        let bits = count.ilog2();
        Table { slots: vec![(0, V::default()); 1 << bits], shift: 64 - bits }
    }

    fn slot_of(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline(never)]
    fn fill(&mut self, keys: u64, value: impl Fn(u64) -> V) {
        let mask = self.slots.len() - 1;
        for key in 1..=keys {
            let mut at = self.slot_of(key);
            while self.slots[at].0 != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = (key, value(key));
        }
    }

    fn find(&self, key: u64) -> V {
        let mask = self.slots.len() - 1;
        let mut at = self.slot_of(key);
        while self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        self.slots[at].1
    }
}

#[inline(never)]
fn allocate_orders(customers: u64) -> Vec<(u32, u32)> {
    let mut seed = 88172645463325252;
    (0..ORDERS as u32).map(|i| ((options::next_random(&mut seed) % customers + 1) as u32, i % 1000)).collect()
}

#[inline(never)]
fn allocate_rates() -> Vec<u64> {
    (0..NATIONS).map(|nation| nation % 13 + 1).collect()
}

#[inline(never)]
fn allocate_totals() -> Vec<u64> {
    vec![0; NATIONS as usize]
}

/// Adds up what each nation's customers ordered.
#[inline(never)]
fn probe(customers: &Table<u64>, orders: &[(u32, u32)], rates: &[u64], totals: &mut [u64]) {
    for &(customer, amount) in orders {
        let nation = customers.find(customer.into()) as usize;
        totals[nation] += u64::from(amount) * rates[nation];
    }
}

fn main() {
    let about = "hash join; waits on loads from the table of customers";
    let options = options::parse(about, 128 << 20, Some("--small-table"));
    let bytes = if options.flag { 16 << 10 } else { options.size_bytes };
    let mut customers = Table::allocate_slots(bytes);
    let count = customers.slots.len() as u64 / 2;
    customers.fill(count, |key| key % NATIONS);
    let (orders, rates, mut totals) = (allocate_orders(count), allocate_rates(), allocate_totals());
    let checksum = options.run("hash_join_rs", ORDERS, || {
        totals.fill(0);
        probe(black_box(&customers), &orders, &rates, &mut totals);
        totals.iter().fold(0u64, |sum, total| sum.wrapping_mul(31).wrapping_add(*total))
    });
    println!("hash_join_rs: checksum {checksum:016x}");
}
