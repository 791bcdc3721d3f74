import { XMLParser } from 'fast-xml-parser';
import { z } from 'zod';
import { MachineErrorCode } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';

/** The definition of a machine in libvirt. It is parsed as untrusted text, because it may come from a repository. */

const XML_MAX = 1_000_000;

const LISTS: ReadonlySet<string> = new Set([
  'domain.devices.disk',
  'domain.devices.interface',
  'domain.devices.hostdev',
]);

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  parseTagValue: false,
  parseAttributeValue: false,
  isArray: (_name, place) => LISTS.has(String(place)),
});

/** An empty element is parsed as text, and one with attributes as an object. */
const Text = z.union([
  z.string(),
  z.object({ '#text': z.string().optional() }).transform((node) => node['#text'] ?? ''),
]);
const attributes = <S extends z.ZodRawShape>(shape: S) =>
  z.preprocess((value) => (typeof value === 'string' ? {} : value), z.object(shape));
const word = z.string().max(4096).optional();

interface RawStore {
  '@index'?: string | undefined;
  source?: { '@file'?: string | undefined; '@dev'?: string | undefined } | undefined;
  backingStore?: RawStore | undefined;
}
const RawStore: z.ZodType<RawStore> = attributes({
  source: attributes({ '@file': word, '@dev': word }).optional(),
  get backingStore() {
    return RawStore.optional();
  },
});

const RawDomain = z.object({
  domain: z.object({
    '@type': word,
    name: Text,
    uuid: Text,
    metadata: z.unknown().optional(),
    memory: z.object({ '#text': z.string(), '@unit': word }),
    vcpu: Text,
    os: z.object({
      '@firmware': word,
      type: attributes({ '@arch': word, '@machine': word }),
      loader: attributes({ '@type': word }).optional(),
    }),
    clock: attributes({ '@offset': word }).optional(),
    devices: attributes({
      disk: z
        .array(
          attributes({
            '@type': word,
            '@device': word,
            driver: attributes({ '@type': word }).optional(),
            source: attributes({ '@file': word, '@dev': word }).optional(),
            backingStore: RawStore.optional(),
            target: attributes({ '@dev': word, '@bus': word }).optional(),
            serial: Text.optional(),
            readonly: z.unknown().optional(),
            blockio: attributes({ '@logical_block_size': word }).optional(),
          }),
        )
        .max(256)
        .optional(),
      interface: z
        .array(
          attributes({
            '@type': word,
            mac: attributes({ '@address': word }).optional(),
            model: attributes({ '@type': word }).optional(),
            source: attributes({ '@network': word, '@bridge': word }).optional(),
          }),
        )
        .max(64)
        .optional(),
    }),
  }),
});

export interface DomainDisk {
  /** The name of the disk in the machine: `vda`. */
  target: string;
  bus: string;
  /** Null for a disk that is neither a file nor a block device of this host. */
  path: string | null;
  isBlockDevice: boolean;
  format: 'raw' | 'qcow2' | null;
  isReadOnly: boolean;
  /** The machine accesses the device directly, past qemu. */
  isPassthrough: boolean;
  sectorBytes: number;
  serial: string | null;
  /** The files and devices that it is based on, without itself. */
  bases: string[];
}

export interface DomainNetworkCard {
  mac: string | null;
  model: string | null;
  network: string | null;
  bridge: string | null;
}

export interface Domain {
  id: string;
  name: string;
  type: string;
  machine: string;
  memoryBytes: number;
  processors: number;
  bootMode: 'bios' | 'uefi';
  isLocalTime: boolean;
  /** The id of libosinfo, if the tool that made the machine has set it. */
  system: string | null;
  /** All drives, including those without a disk of the machine. */
  targets: string[];
  disks: DomainDisk[];
  cards: DomainNetworkCard[];
}

/** Throws `MACHINE_INCOMPATIBLE` if the text is not the definition of a machine. */
export function parseDomain(xml: string): Domain {
  // Definitions have no document type. One could declare entities.
  if (xml.length > XML_MAX || /<!DOCTYPE/i.test(xml)) throw unreadable();
  let parsed: z.infer<typeof RawDomain>;
  try {
    parsed = RawDomain.parse(parser.parse(xml));
  } catch {
    throw unreadable();
  }
  const { domain } = parsed;
  const { os, devices } = domain;
  const memoryBytes = bytesOf(domain.memory['#text'], domain.memory['@unit']);
  return {
    id: domain.uuid.toLowerCase(),
    name: domain.name,
    type: domain['@type'] ?? '',
    machine: os.type['@machine'] ?? '',
    memoryBytes,
    processors: Math.max(1, Number.parseInt(domain.vcpu, 10) || 1),
    bootMode: os['@firmware'] === 'efi' || os.loader?.['@type'] === 'pflash' ? 'uefi' : 'bios',
    isLocalTime: domain.clock?.['@offset'] === 'localtime',
    system: systemOf(xml),
    targets: (devices.disk ?? []).flatMap(({ target }) => target?.['@dev'] ?? []),
    disks: (devices.disk ?? []).flatMap((disk): DomainDisk[] => {
      const kind = disk['@device'] ?? 'disk';
      const target = disk.target?.['@dev'];
      if ((kind !== 'disk' && kind !== 'lun') || target === undefined) return [];
      const format = disk.driver?.['@type'];
      const sector = Number(disk.blockio?.['@logical_block_size'] ?? 512);
      return [
        {
          target,
          bus: disk.target?.['@bus'] ?? 'virtio',
          path: disk.source?.['@file'] ?? disk.source?.['@dev'] ?? null,
          isBlockDevice: disk.source?.['@dev'] !== undefined,
          format: format === 'raw' || format === 'qcow2' ? format : null,
          isReadOnly: disk.readonly !== undefined,
          isPassthrough: kind === 'lun' || disk['@type'] === 'nvme' || disk['@type'] === 'vhostuser',
          sectorBytes: sector === 4096 ? 4096 : 512,
          serial: disk.serial ?? null,
          bases: basesOf(disk.backingStore),
        },
      ];
    }),
    cards: (devices.interface ?? []).map((card) => ({
      mac: card.mac?.['@address'] ?? null,
      model: card.model?.['@type'] ?? null,
      network: card.source?.['@network'] ?? null,
      bridge: card.source?.['@bridge'] ?? null,
    })),
  };
}

const CHAIN_MAX = 200;

function basesOf(first: RawStore | undefined): string[] {
  const bases: string[] = [];
  let store = first;
  while (store !== undefined && bases.length < CHAIN_MAX) {
    const place = store.source?.['@file'] ?? store.source?.['@dev'];
    if (place !== undefined) bases.push(place);
    store = store.backingStore;
  }
  return bases;
}

const UNITS: Readonly<Record<string, number>> = {
  b: 1,
  bytes: 1,
  KB: 1000,
  k: 1024,
  KiB: 1024,
  MB: 1000 ** 2,
  M: 1024 ** 2,
  MiB: 1024 ** 2,
  GB: 1000 ** 3,
  G: 1024 ** 3,
  GiB: 1024 ** 3,
  T: 1024 ** 4,
  TiB: 1024 ** 4,
};

function bytesOf(text: string, unit = 'KiB'): number {
  const bytes = Number(text) * (UNITS[unit] ?? Number.NaN);
  if (!Number.isSafeInteger(bytes) || bytes < 0) throw unreadable();
  return bytes;
}

/**
 * The libosinfo id, such as `http://microsoft.com/win/2k22`. Windows is recognized because it needs other drivers when
 * it is restored.
 */
function systemOf(xml: string): string | null {
  const id = /<libosinfo:os id=["']https?:\/\/([\w./-]{1,200})["']/.exec(xml)?.[1];
  if (id === undefined) return null;
  return id.startsWith('microsoft.com/') ? `Windows (${id})` : id;
}

const unreadable = () =>
  new AgentError(MachineErrorCode.incompatible, 'The definition of the machine cannot be read.');
