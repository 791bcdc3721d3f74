import type { TestDatabase } from '../../../../support/test-postgres.ts';
import { call, type Answer, type CallOptions } from '../../../../support/test-app.ts';
import { eventually } from '../../../../support/eventually.ts';
import { killProgram, runProgram } from '../../../../support/program.ts';
import { linesOf } from '../../../../support/started-server.ts';

/** A server as it is started in earnest: a process of its own, which nobody looks into. */
export interface ServerProgram {
  nodeId: string;
  url: string;
  /** Its log so far, line by line. */
  log(): Record<string, unknown>[];
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** `/metrics`, as the text has it. */
  metrics(): Promise<string>;
  hasEnded(): boolean;
  /** kill -9 */
  kill(): Promise<void>;
  /** The process stands still: its connections stay open, and nothing is answered. */
  freeze(): void;
  thaw(): void;
}

export interface ServerProgramOptions {
  nodeId: string;
  database: Pick<TestDatabase, 'ownerUrl' | 'appUrl'>;
  redisUrl?: string | undefined;
  dataDir: string;
  /** Between two of an agent's (default 2): so short that a test sees many, which a busy machine does not miss. */
  heartbeatSeconds?: number | undefined;
}

const START_MS = 90_000;

export async function startServerProgram(options: ServerProgramOptions): Promise<ServerProgram> {
  const { nodeId, database, redisUrl, dataDir, heartbeatSeconds = 2 } = options;
  const program = runProgram('src/main.ts', [], {
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      DATABASE_URL: database.ownerUrl,
      DATABASE_URL_APP: database.appUrl,
      ...(redisUrl === undefined ? {} : { REDIS_URL: redisUrl }),
      JWT_SECRET: 'a-secret-that-only-tests-sign-with',
      SECRET_ENCRYPTION_KEY: 'a-key-that-only-tests-seal-secrets-with',
      PORT: '0',
      NODE_ID: nodeId,
      DATA_DIR: dataDir,
      AGENT_HEARTBEAT_SECONDS: String(heartbeatSeconds),
    },
  });
  const { child } = program;
  const log = () => linesOf(program.output());
  try {
    const found = await eventually(
      () => {
        if (child.exitCode !== null) throw new Error(`${nodeId} ended: ${program.output()}`);
        return log().find(({ event }) => event === 'server.listening')?.['url'];
      },
      (url) => typeof url === 'string',
      START_MS,
    );
    const url = String(found);
    return {
      nodeId,
      url,
      log,
      call: (method, path, request) => callOnce(`${url}/api/v1${path}`, method, request),
      metrics: async () => String((await callOnce(`${url}/metrics`, 'GET')).body),
      hasEnded: () => child.exitCode !== null || child.signalCode !== null,
      kill: () => killProgram(program),
      freeze: () => void child.kill('SIGSTOP'),
      thaw: () => void child.kill('SIGCONT'),
    };
  } catch (error) {
    await killProgram(program);
    throw error;
  }
}

/** Each request on a connection of its own, so that none is left open to be taken for a leak. */
const callOnce = (url: string, method: string, options: CallOptions = {}): Promise<Answer> =>
  call(url, method, {
    signal: AbortSignal.timeout(40_000),
    ...options,
    headers: { ...options.headers, connection: 'close' },
  });
