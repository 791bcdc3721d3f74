import { spawn, spawnSync } from 'node:child_process';
import { appendFile, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Context } from 'mocha';
import { readOutput } from '../../../../src/agent/os/child-process.ts';

/** A libvirtd of our own, with its folders in a temporary one: it has a view of the file system in which they are its usual ones. */

export interface Libvirtd {
  folder: string;
  uri: string;
  virsh(...words: string[]): Promise<string>;
  stop(): Promise<void>;
}

const PROGRAMS = ['libvirtd', 'virsh', 'qemu-nbd', 'qemu-img', 'qemu-system-x86_64', 'unshare'];

/** Skips visibly where a program is missing, and fails there in CI. */
export function needsLibvirt(test: Context): void {
  const missing = PROGRAMS.filter(
    (program) => spawnSync('sh', ['-c', `PATH=$PATH:/usr/sbin:/sbin command -v ${program}`]).status !== 0,
  );
  if (missing.length === 0 && process.getuid?.() === 0) return;
  const why = `as root: apt-get install libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients (missing: ${missing.join(', ')})`;
  if (process.env['CI'] === 'true') throw new Error(`libvirt cannot be tested: ${why}`);
  // oxlint-disable-next-line no-console -- a test that does not run has to say so
  console.warn(`      skipped: ${why}`);
  test.skip();
}

const PLACES = ['/run/libvirt', '/var/lib/libvirt', '/var/cache/libvirt', '/etc/libvirt'];
const USERS = 'libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin\n';
const GROUPS = 'libvirt-qemu:x:64055:\nkvm:x:64056:\nlibvirt:x:64057:\n';

export async function startLibvirtd(): Promise<Libvirtd> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-libvirt-'));
  const at = (...names: string[]) => path.join(folder, ...names);
  for (const name of ['run', 'lib', 'cache', 'etc']) await mkdir(at(name));
  await writeFile(
    at('etc', 'qemu.conf'),
    'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nnamespaces = []\ncgroup_controllers = []\nremember_owner = 0\nstdio_handler = "file"\n',
  );
  await writeFile(
    at('libvirtd.conf'),
    `unix_sock_dir = "${at('run')}"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\nlog_outputs = "3:file:${at('log')}"\n`,
  );
  await cp('/etc/passwd', at('passwd'));
  await cp('/etc/group', at('group'));
  await appendFile(at('passwd'), USERS);
  await appendFile(at('group'), GROUPS);
  // These have to be there to be covered. Nothing is written into them.
  for (const place of PLACES) await mkdir(place, { recursive: true });
  const script = `set -e
cd "$1"
mount --bind run /run/libvirt; mount --bind lib /var/lib/libvirt; mount --bind cache /var/cache/libvirt
mount --bind etc /etc/libvirt; mount --bind passwd /etc/passwd; mount --bind group /etc/group
PATH=$PATH:/usr/sbin exec libvirtd -f "$1/libvirtd.conf" -p "$1/pid"`;
  const child = spawn('unshare', ['-m', 'sh', '-c', script, 'sh', folder], {
    detached: true,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const uri = `qemu+unix:///system?socket=${at('run', 'libvirt-sock')}`;
  const virsh = (...words: string[]) =>
    readOutput('virsh', ['--quiet', '--connect', uri, ...words], { timeoutMs: 60_000 });
  for (let tries = 0; ; tries += 1) {
    const isThere = await virsh('list').then(
      () => true,
      () => false,
    );
    if (isThere) break;
    if (tries > 100 || child.exitCode !== null) throw new Error(`libvirtd does not start: see ${at('log')}`);
    await delay(200);
  }
  return {
    folder,
    uri,
    virsh,
    async stop() {
      const ids = (await virsh('list', '--uuid')).split('\n').filter((id) => id.trim() !== '');
      for (const id of ids) await virsh('destroy', id.trim());
      child.kill('SIGTERM');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
