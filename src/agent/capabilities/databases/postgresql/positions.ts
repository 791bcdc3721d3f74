/** Positions in the log of PostgreSQL, and the files that hold them. */

export function parsePosition(position: string): bigint {
  const [high = '0', low = '0'] = position.split('/');
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`);
}

export function writePosition(position: bigint): string {
  const hex = (value: bigint) => value.toString(16).toUpperCase();
  return `${hex(position >> 32n)}/${hex(position & 0xffffffffn)}`;
}

/** The name of the file that begins at a position. */
export function segmentName(timeline: number, begin: bigint, segmentBytes: bigint): string {
  const number = begin / segmentBytes;
  const perId = 0x100000000n / segmentBytes;
  return [BigInt(timeline), number / perId, number % perId]
    .map((part) => part.toString(16).toUpperCase().padStart(8, '0'))
    .join('');
}

export const beginOfSegment = (position: bigint, segmentBytes: bigint) =>
  position - (position % segmentBytes);
export const endOfSegment = (position: bigint, segmentBytes: bigint) =>
  beginOfSegment(position + segmentBytes - 1n, segmentBytes);

/** The timeline of a branch as `branchOf` writes it. */
export const timelineOf = (branch: string | null): number => Number(branch?.split('/')[1] ?? 'NaN');
