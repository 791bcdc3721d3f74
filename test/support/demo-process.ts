import { freePort } from '../../src/platform/db/embedded/installation.ts';
import { eventually } from './eventually.ts';
import { type Program, type ProgramOptions, runProgram } from './program.ts';

/** The demo as a user starts it. */
export interface DemoProcess {
  url: string;
  /** The address of the dashboard that signs the administrator in, once. */
  link: string;
  passwordOf(email: string): string;
  /** Waits for a line of its output. */
  saying(pattern: RegExp): Promise<string>;
  /** Calls the REST interface as the administrator of the provider. */
  get(path: string): Promise<unknown>;
  /** Returns its exit code. */
  stop(): Promise<number | null>;
}

const PATIENCE_MS = 240_000;

export async function startDemoProcess(
  dataDir: string,
  args: string[] = [],
  options: Pick<ProgramOptions, 'fromSources'> = {},
): Promise<DemoProcess> {
  const { PATH = '', HOME = '' } = process.env;
  const url = `http://127.0.0.1:${await freePort()}`;
  const env = { PATH, HOME, PORT: new URL(url).port, DATA_DIR: dataDir };
  const demo = runProgram('src/cli/demo.ts', args, { env, ...options });
  const saying = (pattern: RegExp) => outputWith(demo, pattern);
  const output = await saying(/Ctrl\+C stops everything/);
  const passwordOf = (email: string) => new RegExp(`${email}\\s+(\\S+)`).exec(output)?.[1] ?? '';
  let token: Promise<string> | undefined;
  return {
    url,
    link: /http\S+#ssoCode=\S+/.exec(output)?.[0] ?? '',
    passwordOf,
    saying,
    async get(path) {
      token ??= signIn(url, { email: 'admin@demo.example', password: passwordOf('admin@demo.example') });
      const headers = { authorization: `Bearer ${await token}` };
      return (await fetch(`${url}/api/v1${path}`, { headers })).json();
    },
    async stop() {
      demo.child.kill('SIGTERM');
      return demo.ended;
    },
  };
}

function outputWith({ child, output }: Program, pattern: RegExp): Promise<string> {
  return eventually(
    () => {
      if (child.exitCode !== null) throw new Error(`The demo ended: ${output()}`);
      return output();
    },
    (text) => pattern.test(text),
    PATIENCE_MS,
  );
}

async function signIn(url: string, person: { email: string; password: string }): Promise<string> {
  const answer = await fetch(`${url}/api/v1/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(person),
  });
  const { tokens } = (await answer.json()) as { tokens: { accessToken: string } };
  return tokens.accessToken;
}
