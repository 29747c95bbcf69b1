//! For a terminal: text in as many columns as there are.

pub mod bench;
pub mod compare;
pub mod count;
pub mod demo;
pub mod doctor;
pub mod events;
pub mod hybrid;
pub mod import;
pub mod kernels;
pub mod methods;
pub mod model;
pub mod patterns;
pub mod predict;
pub mod profile;
pub mod ranks;
pub mod regions;
pub mod reproduce;
pub mod run;
pub mod scaling;
pub mod scenario;
pub mod squeeze;
pub mod surroundings;
pub mod topology;
pub mod trust;
pub mod validate;
pub mod views;
