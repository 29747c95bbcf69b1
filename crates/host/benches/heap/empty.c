/* Does nothing: what loading any library costs. */
int memwall_nothing;
