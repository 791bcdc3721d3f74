import { BaseModel } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import { RESOLUTIONS } from './resolution.ts';

/** The choice of an organization; organizations without a row keep what the server keeps. */
export class MetricRetentionChoice extends BaseModel {
  static override tableName = 'metric_retention';
  static override idColumn = 'org_id';
  static override hasOwnId = false;
  declare orgId: string;
  declare minuteDays: number;
  declare quarterDays: number;
  declare hourDays: number;
}

/** Partitions hold rows of all organizations, so those of an organization that keeps them shorter are removed by age. */
export const CHOSEN_RETENTION: readonly RetentionRule[] = RESOLUTIONS.map(({ table, column, days }) => ({
  table,
  key: ['device_id', 'begins_at'],
  days,
  from: `devices d join ${table} old on old.device_id = d.id`,
  // A joined day is over with its last minute.
  isOver: (kept) =>
    `old.begins_at < now() - make_interval(days => ${table === 'metric_days' ? `${kept} + 1` : kept})`,
  organization: {
    column: 'd.org_id',
    chosenDays: `(select r.${column} from metric_retention r where r.org_id = o.id)`,
    candidate: `exists (select from metric_retention r where r.org_id = o.id and r.${column} < ${days})`,
  },
}));
