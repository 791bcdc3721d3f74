import { promoteVersion, type PromoteRequest } from '../../features/releases/index.ts';
import { printPromotion } from './print-promotion.ts';
import { withReleases } from './with-releases.ts';

export async function promote(request: PromoteRequest): Promise<void> {
  printPromotion(await withReleases((parts) => promoteVersion(parts, request)));
}
