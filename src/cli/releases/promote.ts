import { promoteVersion, type PromoteRequest } from '../../features/releases/operator.ts';
import type { CommandIo } from '../io.ts';
import { printPromotion } from './print-promotion.ts';
import { withReleases } from './with-releases.ts';

export async function promote(
  io: CommandIo,
  request: PromoteRequest,
  { json }: { json?: true },
): Promise<void> {
  const promotion = await withReleases(io, (parts) => promoteVersion(parts, request));
  if (json === true) io.stdout.write(`${JSON.stringify({ ok: true, ...promotion })}\n`);
  else printPromotion(io, promotion);
}
