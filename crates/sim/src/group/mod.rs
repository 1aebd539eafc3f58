//! Groups with views under seeds. (So far: what is promised, a file each in `checks`.)

mod app;
mod checks;
mod history;
