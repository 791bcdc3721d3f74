import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { RiskSeverity } from '../core/readiness.ts';
import { HIGH_READINESS } from './overview.schema.ts';
import type { ReadinessSource } from './readiness-source.ts';

interface CloudSums {
  configs: number;
  protected: number;
  failing: number;
  late: number;
  unprotected: number;
  critical: number;
  atRisk: number;
}

interface CloudFigures {
  configId: string;
  orgId: string;
  name: string;
  readinessScore: number;
  estimatedRpoMinutes: number | null;
  riskFactors: { code: string; severity: RiskSeverity; message: string }[];
  calculatedAt: Date;
}

/** SQL of the configurations that the caller may see, as `c`. */
const visible = ({ caller }: Pick<Context, 'caller'>, { rows }: ReadinessSource) =>
  `from (${rows}) c where ${inTenant(caller, 'c.org_id')}
    and (cast(:orgId as uuid) is null or c.org_id = cast(:orgId as uuid))`;

const NEEDS_ATTENTION = '(c.is_failing or c.is_late or c.is_unprotected)';

export async function readCloudSums(
  ctx: Context,
  source: ReadinessSource,
  orgId: string | undefined,
): Promise<CloudSums> {
  const { rows } = await ctx.tx.raw<{ rows: [CloudSums] }>(
    `select count(*)::integer as configs, (count(*) filter (where not ${NEEDS_ATTENTION}))::integer as protected,
      (count(*) filter (where c.is_failing))::integer as failing, (count(*) filter (where c.is_late))::integer as late,
      (count(*) filter (where c.is_unprotected))::integer as unprotected,
      (count(*) filter (where c.risks @> '[{"severity":"critical"}]'))::integer as critical,
      (count(*) filter (where c.score < ${HIGH_READINESS}))::integer as "atRisk"
    ${visible(ctx, source)}`,
    { orgId: orgId ?? null },
  );
  return rows[0];
}

/** Those with the lowest scores. */
export async function readCloudConfigs(
  ctx: Context,
  source: ReadinessSource,
  { orgId, which, limit }: { orgId: string | undefined; which: 'all' | 'attention'; limit: number },
): Promise<CloudFigures[]> {
  const { rows } = await ctx.tx.raw<{ rows: CloudFigures[] }>(
    `select c.id as "configId", c.org_id as "orgId", c.name, c.score as "readinessScore",
      c.rpo_minutes as "estimatedRpoMinutes", c.risks as "riskFactors", c.calculated_at as "calculatedAt"
    ${visible(ctx, source)} ${which === 'attention' ? `and ${NEEDS_ATTENTION}` : ''}
    order by c.score, c.id limit :limit`,
    { orgId: orgId ?? null, limit },
  );
  return rows;
}
