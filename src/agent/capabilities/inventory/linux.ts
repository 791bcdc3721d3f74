import { lastUserOf, type Collector, cleanDmi } from './collector.ts';
import { linuxSoftware } from './linux-packages.ts';
import { Reading } from '../../core/reading.ts';
import type { Sources } from './sources.ts';

const DMI = '/sys/class/dmi/id';

export const collectOnLinux: Collector = async (sources, { software, reading = new Reading() }) => {
  const dmi = async (name: string) => cleanDmi(await sources.file(`${DMI}/${name}`));
  // Boards without DMI have a device tree. The first word of its model is mostly the manufacturer.
  const board = cleanDmi(await sources.file('/proc/device-tree/model'));
  return {
    hardware: {
      manufacturer: (await dmi('sys_vendor')) ?? (await dmi('board_vendor')) ?? board?.split(' ')[0],
      model: (await dmi('product_name')) ?? (await dmi('board_name')) ?? board,
      // On most machines only root can read this.
      serialNumber:
        (await dmi('product_serial')) ??
        (await dmi('board_serial')) ??
        cleanDmi(await sources.file('/proc/device-tree/serial-number')),
      gpuModel: graphicsOf((await reading.from('lspci', () => sources.output('lspci', ['-mm']))) ?? ''),
    },
    primaryInterface:
      defaultRoute((await sources.file('/proc/net/route')) ?? '') ??
      defaultRoute6((await sources.file('/proc/net/ipv6_route')) ?? ''),
    lastUser: software ? await lastUser(sources) : undefined,
    software: software ? await linuxSoftware(sources, reading) : undefined,
  };
};

/** For values that the inventory can do without. */
const mayFail = (output: Promise<string | undefined>) => output.catch(() => undefined);

async function lastUser(sources: Sources): Promise<string | undefined> {
  const last = lastUserOf((await mayFail(sources.output('last', ['-w', '-50']))) ?? '');
  // Newer systems have no `last`. There, a user who is signed in now is the last one.
  return last ?? /^\S+/.exec((await mayFail(sources.output('who', []))) ?? '')?.[0];
}

/** The first graphics card in the output of `lspci -mm`: slot, class, maker and device, the last three in quotes. */
export function graphicsOf(output: string): string | undefined {
  const found = /^\S+ "(?:VGA compatible|3D|Display) controller" "([^"]*)" "([^"]*)"/m.exec(output);
  if (found === null) return undefined;
  const maker = found[1]?.replace(/,? (Corporation|Inc\.?)( \[.*\])?$/, '').replace(/^.*\[(.+)\]$/, '$1');
  // The name under which a chip is sold is in brackets.
  const model = /\[([^\]]+)\]/.exec(found[2] ?? '')?.[1] ?? found[2];
  return cleanDmi([maker, model].filter(Boolean).join(' '));
}

const UP = 0x1;
const GATEWAY = 0x2;

/** The interface of the default route with the lowest metric, from `/proc/net/route`. */
export function defaultRoute(table: string): string | undefined {
  const routes = table
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, destination, , flags = '0', , , , mask]) => {
      const bits = Number.parseInt(flags, 16);
      return destination === '00000000' && mask === '00000000' && (bits & UP) !== 0;
    })
    .sort((a, b) => Number(a[6]) - Number(b[6]));
  return routes[0]?.[0];
}

const ANY_ADDRESS = '0'.repeat(32);

/** The same from `/proc/net/ipv6_route`, whose numbers are all hexadecimal. */
export function defaultRoute6(table: string): string | undefined {
  const routes = table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([destination, prefix, , , , , , , flags = '0', name]) => {
      const bits = Number.parseInt(flags, 16);
      return destination === ANY_ADDRESS && prefix === '00' && (bits & GATEWAY) !== 0 && name !== 'lo';
    })
    .sort((a, b) => Number.parseInt(a[5] ?? '', 16) - Number.parseInt(b[5] ?? '', 16));
  return routes[0]?.[9];
}
