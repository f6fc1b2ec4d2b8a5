// Kernels of the measured runs on a GPU. Every loop ends by itself.

__device__ unsigned long long nanoseconds()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// A launch that does nothing.
extern "C" __global__ void empty() {}

// One thread waits: for a time, or until the host raises a flag.
extern "C" __global__ void wait(const volatile unsigned int* flag, unsigned long long longest_ns)
{
    const unsigned long long start = nanoseconds();
    while (*flag == 0 && nanoseconds() - start < longest_ns) {}
}

// All threads multiply and add for a time.
extern "C" __global__ void compute(float* sink, unsigned long long longest_ns)
{
    const unsigned long long start = nanoseconds();
    float a = threadIdx.x, b = 1.0f;
    while (nanoseconds() - start < longest_ns) {
        for (int i = 0; i < 256; ++i) { a = a * 0.999f + b; b = b * 1.001f - a; }
    }
    // Never true for a finite sum, so that the loop is kept and nothing is written.
    if (a + b == 1.2345e30f) *sink = a;
}

// Threads store 16 bytes each, one after the other, into memory of the host.
extern "C" __global__ void store(uint4* target, unsigned long long count, unsigned int value)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        target[i] = make_uint4(value, value, value, value);
}

// One thread follows a chain of indices through memory of the host: every load waits for the one before.
extern "C" __global__ void follow(const volatile unsigned int* next, unsigned int loads, unsigned int* end)
{
    unsigned int place = 0;
    for (unsigned int i = 0; i < loads; ++i) place = next[place];
    *end = place;
}
