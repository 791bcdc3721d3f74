import { createServer } from 'node:net';

/** The properties of this machine that the embedded database depends on, and that tests replace. */
export interface Machine {
  os: string;
  arch: string;
  musl: boolean;
  /** The `native` folder of the platform's package, where it is not to be looked up. */
  nativeDir: string | undefined;
  /** For root, where the installed binaries are out of reach of the user that Postgres runs as. */
  binariesHome: string;
  /** For root, where the data folder is. */
  clustersHome: string;
  pickPort: () => Promise<number>;
  /** How long to wait for the lock of an owner that may only just have been killed. */
  ownerPatienceMs: number;
}

export function thisMachine(): Machine {
  return {
    os: process.platform === 'win32' ? 'windows' : process.platform,
    arch: process.arch,
    musl: process.platform === 'linux' && !hasGlibc(),
    nativeDir: undefined,
    binariesHome: '/var/cache/muster',
    clustersHome: '/var/lib/muster',
    pickPort: freePort,
    ownerPatienceMs: 1000,
  };
}

function hasGlibc(): boolean {
  const report: { header?: { glibcVersionRuntime?: string } } = process.report.getReport();
  return report.header?.glibcVersionRuntime !== undefined;
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (address !== null && typeof address === 'object') resolve(address.port);
        else reject(new Error('The system gave no port.'));
      });
    });
  });
}
