import { access, constants, readdir } from 'node:fs/promises';
import path from 'node:path';
import { findProgram } from '../processes/find-program.ts';

/** What machines need of this host. */
export interface QemuPrograms {
  system: string;
  image: string;
}

export interface Firmware {
  code: string;
  variables: string;
}

/** `undefined` where qemu or its tool for images is not installed. Looked for each time: it may be installed meanwhile. */
export async function findQemu(searchPath?: string): Promise<QemuPrograms | undefined> {
  const system =
    (await findProgram(['qemu-system-x86_64', 'qemu-kvm'], searchPath)) ??
    (await findProgram(['qemu-kvm'], '/usr/libexec'));
  const image = await findProgram(['qemu-img'], searchPath);
  return system === undefined || image === undefined ? undefined : { system, image };
}

/** Where the distributions put the firmware, without Secure Boot. */
const FIRMWARE: readonly [folder: string, code: string, variables: string][] = [
  ['/usr/share/OVMF', 'OVMF_CODE_4M.fd', 'OVMF_VARS_4M.fd'],
  ['/usr/share/OVMF', 'OVMF_CODE.fd', 'OVMF_VARS.fd'],
  ['/usr/share/edk2/ovmf', 'OVMF_CODE.fd', 'OVMF_VARS.fd'],
  ['/usr/share/edk2/x64', 'OVMF_CODE.4m.fd', 'OVMF_VARS.4m.fd'],
];

export async function findFirmware(): Promise<Firmware | undefined> {
  for (const [folder, code, variables] of FIRMWARE) {
    const found = { code: path.join(folder, code), variables: path.join(folder, variables) };
    const isThere = await Promise.all(Object.values(found).map((file) => isReadable(file)));
    if (isThere.every(Boolean)) return found;
  }
  return undefined;
}

/** The network bridges of this host, by their names. */
export async function listBridges(): Promise<string[]> {
  const names = await readdir('/sys/class/net').catch(() => []);
  const isBridge = await Promise.all(names.map((name) => isReadable(`/sys/class/net/${name}/bridge`)));
  return names.filter((_name, index) => isBridge[index]);
}

const isReadable = (file: string) =>
  access(file, constants.R_OK).then(
    () => true,
    () => false,
  );
