import { EngineError } from '../engine-error.ts';
import { MachineDescription } from './description.ts';
import { DESCRIPTION_MAX, DESCRIPTION_MEMBER, diskMember, type DiskPlace } from './layout.ts';
import { BLOCK, decodeHeader, paddingOf } from './tar-block.ts';

/** What `openContent` gives of a file. */
interface Content {
  length: number;
  read(range: { first: number; last: number }): AsyncIterable<Buffer>;
}

/** The same for a file in a repository. */
export const openMachineIn = (content: Content): Promise<OpenedMachine> =>
  openMachine(async (offset, length) => {
    const parts: Buffer[] = [];
    const last = Math.min(content.length, offset + length) - 1;
    if (offset <= last) for await (const part of content.read({ first: offset, last })) parts.push(part);
    return Buffer.concat(parts);
  });

/** Reads bytes of the file of a machine. Fewer than asked for: the file has ended. */
export type ReadAt = (offset: number, length: number) => Promise<Uint8Array>;

export interface OpenedMachine {
  description: MachineDescription;
  disks: DiskPlace[];
}

/**
 * Finds the disks by the headers of the archive, whatever its description says of their places. Reads some kilobytes,
 * wherever the file is: in a mounted snapshot, in a repository or on a disk. Throws REPOSITORY_DAMAGED for a file that is
 * no archive of a machine.
 */
export async function openMachine(readAt: ReadAt): Promise<OpenedMachine> {
  const first = await headerAt(readAt, 0);
  if (first?.name !== DESCRIPTION_MEMBER || first.size > DESCRIPTION_MAX) {
    throw damaged('It does not begin with the description of a machine.');
  }
  const description = parseDescription(await readAt(BLOCK, first.size));
  const disks: DiskPlace[] = [];
  let at = BLOCK + first.size + paddingOf(first.size);
  for (const { name, sizeBytes } of description.disks) {
    const header = await headerAt(readAt, at);
    if (header?.name !== diskMember(name) || header.size !== sizeBytes) {
      throw damaged(`It does not have the disk ${name} as its description says.`);
    }
    disks.push({ name, sizeBytes, offset: at + BLOCK });
    at += BLOCK + sizeBytes + paddingOf(sizeBytes);
  }
  if ((await headerAt(readAt, at)) !== undefined) throw damaged('It has more members than disks.');
  return { description, disks };
}

async function headerAt(readAt: ReadAt, offset: number) {
  const block = await readAt(offset, BLOCK);
  try {
    return decodeHeader(block);
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error));
  }
}

export function parseDescription(bytes: Uint8Array): MachineDescription {
  let content: unknown;
  try {
    content = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw damaged('Its description is not JSON.');
  }
  const parsed = MachineDescription.safeParse(content);
  if (parsed.success) return parsed.data;
  throw damaged(`Its description has an unknown form: ${parsed.error.issues[0]?.message}`);
}

const damaged = (detail: string) =>
  new EngineError('REPOSITORY_DAMAGED', {
    message: 'The snapshot does not hold an image of a machine, or it is damaged.',
    detail,
  });
