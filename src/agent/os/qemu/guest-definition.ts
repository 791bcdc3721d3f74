import { z } from 'zod';

/** A machine that this agent has defined, as it is kept in its folder. */

/** A name in the folder of the machine, so that nothing outside of it is ever meant. */
const FileName = z.string().regex(/^[a-z0-9][a-z0-9.-]{0,63}$/, 'must be a plain file name');
const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);
const Port = z.number().int().min(1).max(65_535);

export const GuestDisk = z.strictObject({
  file: FileName,
  format: z.enum(['raw', 'qcow2']),
  sectorBytes: z.union([z.literal(512), z.literal(4096)]),
  /** Present while the file is an overlay: the bytes of a snapshot that it lies on. */
  base: z.strictObject({ file: z.string().startsWith('/'), offset: Bytes, sizeBytes: Bytes }).optional(),
});
export type GuestDisk = z.infer<typeof GuestDisk>;

export const GuestNetwork = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({
    type: z.literal('user'),
    /** The guest reaches nothing: not even the services of the host, which it otherwise does. */
    isIsolated: z.boolean(),
    /** From the loopback address of the host. */
    forwards: z.array(z.strictObject({ hostPort: Port, guestPort: Port })).max(16),
  }),
  z.strictObject({
    type: z.literal('bridge'),
    bridge: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/, 'must be the name of a network interface'),
  }),
]);
export type GuestNetwork = z.infer<typeof GuestNetwork>;

export const GuestDefinition = z.strictObject({
  id: z.uuid(),
  /** For people. It never becomes part of a command line. */
  name: z.string().min(1).max(255),
  /** Where its disks are. */
  folder: z.string().startsWith('/'),
  memoryMiB: z.number().int().min(64).max(4_194_304),
  processors: z.number().int().min(1).max(255),
  bootMode: z.enum(['bios', 'uefi']),
  bus: z.enum(['virtio', 'sata']),
  macAddress: z.string().regex(/^52:54:00(:[0-9a-f]{2}){3}$/),
  network: GuestNetwork,
  disks: z.array(GuestDisk).min(1).max(16),
  /** Of an instant boot: the snapshot under its overlays. */
  snapshotId: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  /** When it was started for the first time. Before that, an overlay holds nothing. */
  startedAt: z.string().optional(),
});
export type GuestDefinition = z.infer<typeof GuestDefinition>;
