import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { programArguments } from '../../support/bundled-programs.ts';
import { TEST_ENCRYPTION_KEY, type TestApp } from '../../support/test-app.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

export interface Ran {
  code: number;
  out: string;
  err: string;
}

export interface MusterOptions {
  env?: Record<string, string>;
  stdin?: string;
  /** Called with each piece of the standard output. */
  onOutput?: (child: ChildProcess, text: string) => void;
}

/** `muster <arguments>`, as an operator runs it beside the server. */
export function muster(
  args: readonly string[],
  { env = {}, stdin, onOutput }: MusterOptions = {},
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...programArguments('src/cli/muster.ts'), ...args], {
      cwd: ROOT,
      env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...env },
    });
    const ran: Ran = { code: -1, out: '', err: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      ran.out += text;
      onOutput?.(child, ran.out);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      ran.err += text;
    });
    child.stdin.on('error', () => undefined);
    child.stdin.end(stdin ?? '');
    child.once('error', reject);
    child.once('close', (code) => resolve({ ...ran, code: code ?? -1 }));
  });
}

/** The environment of a test's server, for commands beside it. */
export const environmentOf = (app: TestApp, dataDir: string): Record<string, string> => ({
  DATA_DIR: dataDir,
  DATABASE_URL: app.database.ownerUrl,
  DATABASE_URL_APP: app.database.appUrl,
  AUDIT_ADMIN_DATABASE_URL: app.database.auditAdminUrl ?? '',
  JWT_SECRET: app.jwtSecret,
  SECRET_ENCRYPTION_KEY: TEST_ENCRYPTION_KEY,
});
