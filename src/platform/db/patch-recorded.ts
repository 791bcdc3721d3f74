import type { PartialModelObject } from 'objection';
import type { Context } from '../context.ts';
import type { BaseModel } from './base-model.ts';

/** Changes a row, answers it as it is then, and says what has changed for the audit entry. */
export async function patchRecorded<M extends BaseModel>(
  ctx: Pick<Context, 'tx' | 'recordChange'>,
  row: M,
  changes: PartialModelObject<M>,
): Promise<M> {
  const before = Object.assign({}, row);
  const updated = await row.$query(ctx.tx).patchAndFetch(changes);
  ctx.recordChange(before, updated);
  return updated as M;
}
