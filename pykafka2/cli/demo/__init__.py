"""The verb demo: crashes a broker under load and proves that no record is lost."""
