import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Context } from 'mocha';
import { eventually } from '../../support/eventually.ts';
import { lastingPort } from '../../support/lasting-port.ts';

/** nginx and Caddy with the configurations of `deploy/`, in which only addresses, ports and certificates are replaced. */

const ROOT = path.join(import.meta.dirname, '../../..');
const CERTIFICATES = path.join(ROOT, 'test/support/certificates');
const CERTIFICATE = path.join(CERTIFICATES, 'certificate.pem');
const KEY = path.join(CERTIFICATES, 'key.pem');
const PATH = `${process.env['PATH']}:/usr/sbin:/usr/local/sbin`;

export interface ProxyProgram {
  port: number;
  /** Where the proxy answers without TLS, if it does. */
  plainPort: number;
  pid: number;
  /** What the proxy has written so far. */
  log(): Promise<string>;
  /** Names of files in the folders to which the proxy could spool bodies and answers. */
  spooled(): Promise<string[]>;
  stop(): Promise<void>;
}

/** Skips what needs the program where there is none, and fails there in CI, which installs it. */
export function needsProgram(test: Context, program: string, versionFlag: string): void {
  if (spawnSync(program, [versionFlag], { env: { PATH } }).status === 0) return;
  if (process.env['CI'] === 'true') throw new Error(`${program} is missing: apt-get install ${program}`);
  // oxlint-disable-next-line no-console -- a test that does not run has to say so
  console.warn(`      skipped: ${program} is not installed`);
  test.skip();
}

/** Replaces each text by the other, and insists that it is there. */
function replaced(text: string, replacements: readonly (readonly [string, string])[]): string {
  return replacements.reduce((rest, [from, to]) => {
    if (!rest.includes(from)) throw new Error(`The configuration does not contain "${from}".`);
    return rest.replaceAll(from, to);
  }, text);
}

const folderFor = async (name: string) => {
  const folder = await mkdtemp(path.join(tmpdir(), `muster-${name}-`));
  // Workers of a proxy that root has started run as another user.
  await chmod(folder, 0o755);
  return folder;
};

export async function startNginx(muster: string): Promise<ProxyProgram> {
  const folder = await folderFor('nginx');
  const [port, plainPort] = [await lastingPort(), await lastingPort()];
  const site = replaced(await readFile(path.join(ROOT, 'deploy/nginx.conf'), 'utf8'), [
    ['server 127.0.0.1:3000;', `server ${new URL(muster).host};`],
    ['listen 80;', `listen 127.0.0.1:${plainPort};`],
    ['listen [::]:80;', ''],
    ['listen 443 ssl http2 backlog=16384;', `listen 127.0.0.1:${port} ssl http2 backlog=16384;`],
    ['listen [::]:443 ssl http2 backlog=16384;', ''],
    ['/etc/letsencrypt/live/rmm.example.com/fullchain.pem', CERTIFICATE],
    ['/etc/letsencrypt/live/rmm.example.com/privkey.pem', KEY],
  ]);
  const spools = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const main = `daemon off;
    worker_processes 1;
    pid ${folder}/pid;
    error_log ${folder}/log notice;
    events { worker_connections 512; }
    http {
      access_log off;
      ${spools.map((spool) => `${spool}_temp_path ${folder}/spool-${spool};`).join('\n')}
      include ${folder}/site.conf;
    }`;
  await writeFile(path.join(folder, 'site.conf'), site);
  await writeFile(path.join(folder, 'nginx.conf'), main);
  // Without -e, it would first open the log of the system.
  const words = ['-p', folder, '-e', `${folder}/log`, '-c', `${folder}/nginx.conf`];
  const program = await started('nginx', words, { PATH }, { folder, port });
  const spooled = async () =>
    (await Promise.all(spools.map((spool) => filesIn(`${folder}/spool-${spool}`)))).flat();
  return { ...program, port, plainPort, spooled };
}

export async function startCaddy(muster: string): Promise<ProxyProgram> {
  const folder = await folderFor('caddy');
  const port = await lastingPort();
  const site = replaced(await readFile(path.join(ROOT, 'deploy/Caddyfile'), 'utf8'), [
    ['rmm.example.com {', `https://127.0.0.1:${port} {\n\ttls ${CERTIFICATE} ${KEY}`],
    ['reverse_proxy 127.0.0.1:3000 {', `reverse_proxy ${new URL(muster).host} {`],
  ]);
  const options = '{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n}\n';
  await mkdir(path.join(folder, 'tmp'));
  await writeFile(path.join(folder, 'Caddyfile'), options + site);
  const words = ['run', '--config', `${folder}/Caddyfile`, '--adapter', 'caddyfile'];
  const env = { PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder, TMPDIR: `${folder}/tmp` };
  const program = await started('caddy', words, env, { folder, port });
  return { ...program, port, plainPort: port, spooled: () => filesIn(`${folder}/tmp`) };
}

const filesIn = (folder: string) => readdir(folder, { recursive: true }).catch(() => []);

async function started(
  command: string,
  words: string[],
  env: NodeJS.ProcessEnv,
  { folder, port }: { folder: string; port: number },
): Promise<Pick<ProxyProgram, 'pid' | 'log' | 'stop'>> {
  const child = spawn(command, words, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  const killOnExit = () => child.kill('SIGKILL');
  process.once('exit', killOnExit);
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const log = async () => said + (await readFile(`${folder}/log`, 'utf8').catch(() => ''));
  const stop = async () => {
    process.off('exit', killOnExit);
    if (isRunning(child)) child.kill('SIGTERM');
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await eventually(
      async () => {
        if (!isRunning(child)) throw new Error(`${command} did not start: ${await log()}`);
        return answers(port);
      },
      (does) => does,
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return { pid: child.pid ?? 0, log, stop };
}

const isRunning = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null;

const answers = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
