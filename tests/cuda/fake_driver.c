// A CUDA driver and NVML without a GPU, for tests of the calls: memory is the host's, everything is done at once,
// events carry the host's time, kernels are played by name. It is strict where a real one would hang or lie: a stream
// that is held must be released before anybody waits, streams that wait for an event must have it recorded before,
// times are told between recorded events only. Build: cc -shared -fPIC fake_driver.c.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static void *current;
static const volatile uint32_t *held;
static int would_hang(void)
{
    // A stream is held and the host has not raised the flag: a real driver would wait here.
    int hangs = held && !*held;
    held = NULL;
    return hangs;
}

static int gpus(void)
{
    const char *text = getenv("FAKE_GPUS");
    return text ? atoi(text) : 1;
}

CUresult cuInit(unsigned flags) { return getenv("FAKE_FAILURE") ? atoi(getenv("FAKE_FAILURE")) : 0; }
CUresult cuDriverGetVersion(int *version) { *version = 13000; return 0; }
CUresult cuDeviceGetCount(int *count) { *count = gpus(); return 0; }
CUresult cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal < gpus() ? 0 : 101; }
CUresult cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Fake GPU"); return 0; }
CUresult cuDeviceGetPCIBusId(char *id, int length, int device) { snprintf(id, length, "0000:0%d:00.0", device); return 0; }
CUresult cuDeviceGetAttribute(int *value, int which, int device) { *value = which == 75 ? 9 : which == 16 ? 4 : 0; return 0; }
CUresult cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)(device + 1); return 0; }
CUresult cuDevicePrimaryCtxRelease(int device) { return 0; }
CUresult cuCtxSetCurrent(void *context) { current = context; return context ? 0 : 201; }
CUresult cuCtxSynchronize(void) { return 0; }
CUresult cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    // One pair may lie behind two sockets.
    *can = !(getenv("FAKE_NO_PEER") && device + peer == 1);
    return 0;
}
CUresult cuCtxEnablePeerAccess(void *context, unsigned flags) { return 0; }
CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags) { *address = calloc(1, bytes); return *address ? 0 : 2; }
CUresult cuMemFreeHost(void *address) { free(address); return 0; }
CUresult cuMemAlloc(uint64_t *address, size_t bytes)
{
    // The second GPU may be full.
    if (!current) return 201;
    if (current != (void *)1 && getenv("FAKE_FULL_PEER")) return 2;
    *address = (uint64_t)calloc(1, bytes);
    return *address ? 0 : 2;
}
CUresult cuMemFree(uint64_t address) { free((void *)address); return 0; }
CUresult cuMemcpyAsync(uint64_t target, uint64_t source, size_t bytes, void *stream)
{
    memcpy((void *)target, (void *)source, bytes);
    return 0;
}
CUresult cuStreamCreate(void **stream, unsigned flags) { *stream = malloc(1); return 0; }
CUresult cuStreamSynchronize(void *stream) { return would_hang() ? 702 : 0; }
CUresult cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return *(double *)event > 0 ? 0 : 400; }
CUresult cuStreamDestroy(void *stream) { free(stream); return 0; }
CUresult cuStreamDestroy_v2(void *stream) { return cuStreamDestroy(stream); }
CUresult cuStreamWaitValue32(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    // Released before anything is queued: copies would not start together.
    if (!current || flags || *(const volatile uint32_t *)address >= value) return 1;
    held = (const volatile uint32_t *)address;
    return 0;
}
CUresult cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    return cuStreamWaitValue32(stream, address, value, flags);
}
CUresult cuEventDestroy(void *event) { free(event); return 0; }
CUresult cuEventDestroy_v2(void *event) { return cuEventDestroy(event); }
CUresult cuEventCreate(void **event, unsigned flags) { *event = calloc(1, sizeof(double)); return 0; }
CUresult cuEventRecord(void *event, void *stream) { *(double *)event = now_ms(); return 0; }
CUresult cuEventSynchronize(void *event) { return would_hang() ? 702 : *(double *)event > 0 ? 0 : 400; }
CUresult cuEventQuery(void *event) { return *(double *)event > 0 ? 0 : 600; }
CUresult cuEventElapsedTime(float *ms, void *first, void *last)
{
    *ms = (float)(*(double *)last - *(double *)first) + 1e-3f;
    return *(double *)first > 0 && *(double *)last >= *(double *)first ? 0 : 600;
}
CUresult cuModuleLoadData(void **module, const void *image) { *module = malloc(1); return memcmp(image, "\177ELF", 4) ? 200 : 0; }
CUresult cuModuleUnload(void *module) { return 0; }
CUresult cuModuleGetFunction(void **function, void *module, const char *name) { *function = strdup(name); return 0; }
CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **arguments, void **extra)
{
    const char *name = function;
    if (!strcmp(name, "empty")) return arguments ? 1 : 0;
    if (!arguments) return 1;
    if (!strcmp(name, "store")) {
        uint32_t *target = *(uint32_t **)arguments[0];
        uint64_t count = *(uint64_t *)arguments[1];
        for (uint64_t i = 0; i < 4 * count; ++i) target[i] = *(uint32_t *)arguments[2];
    } else if (!strcmp(name, "follow")) {
        const uint32_t *next = *(uint32_t **)arguments[0];
        uint32_t loads = *(uint32_t *)arguments[1], place = 0;
        for (uint32_t i = 0; i < loads; ++i) place = next[place];
        **(uint32_t **)arguments[2] = place;
    } else if (!strcmp(name, "wait") || !strcmp(name, "compute")) {
        // What is done at once cannot wait for a flag that is raised later: a tenth of the time, at most a millisecond.
        uint64_t longest = *(uint64_t *)arguments[1] / 10;
        // A hold of a second at least is meant to be released; shorter ones are work for the power meters.
        if (!strcmp(name, "wait") && longest >= 100000000) {
            held = *(const volatile uint32_t **)arguments[0];
            if (*held) return 1;
            return 0;
        }
        struct timespec t = {0, longest < 1000000 ? longest : 1000000};
        nanosleep(&t, NULL);
    } else
        return 500;
    return 0;
}
CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == 100 ? "no CUDA-capable device is detected" : error == 0 ? "no error" : "fake error";
    return 0;
}
// NVRTC asks the driver for tables of its own.
CUresult cuGetExportTable(const void **table, const void *identifier) { *table = NULL; return 500; }
CUresult cuGetErrorName(CUresult error, const char **text) { return cuGetErrorString(error, text); }
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, void *status)
{
    *function = dlsym(RTLD_DEFAULT, symbol);
    if (!*function) {
        Dl_info self;
        void *handle = dladdr((void *)cuInit, &self) ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        *function = handle ? dlsym(handle, symbol) : NULL;
    }
    if (status) *(int *)status = *function ? 0 : 1;
    return *function ? 0 : 500;
}
CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
CUresult cuMemAlloc_v2(uint64_t *address, size_t bytes) { return cuMemAlloc(address, bytes); }
CUresult cuMemFree_v2(uint64_t address) { return cuMemFree(address); }
CUresult cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
CUresult cuEventElapsedTime_v2(float *ms, void *first, void *last) { return cuEventElapsedTime(ms, first, last); }

// NVML: 40 W, and an energy counter that rises so.
int nvmlInitWithFlags(unsigned flags) { return getenv("FAKE_NO_NVML") ? 9 : 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
    *device = (void *)1;
    return strncmp(id, "0000:0", 6) ? 6 : 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj)
{
    if (getenv("FAKE_NO_COUNTER")) return 3;
    *mj = (unsigned long long)(now_ms() * 40.0);
    return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) { *mw = 40000; return 0; }
const char *nvmlErrorString(int error) { return "fake error"; }
