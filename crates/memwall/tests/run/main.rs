//! `memwall run`, `record`, `report` and `compare` as a user types them, on the example programs and on programs that
//! nobody here wrote. Nothing here asserts a time, and shares only of recordings that are kept.

mod classes;
mod counts;
mod data;
mod expected;
mod foreign;
mod linking;
mod live;
mod odd;
mod openmp;
mod patterns;
mod place;
mod regions;
mod relief;
mod same_names;
mod threads;
mod views;
