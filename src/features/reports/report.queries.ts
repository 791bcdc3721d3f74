import type { Tx } from '../../platform/db/transaction.ts';

interface Subject {
  name: string;
  timezone: unknown;
  createdAt: Date;
  provider: string;
  logoUrl: string | null;
  accentColor: string | null;
}

/** The organization of a report, if the transaction sees it, and its provider. */
export async function readSubject(tx: Tx, orgId: string): Promise<Subject | undefined> {
  const { rows } = await tx.raw<{ rows: Subject[] }>(
    `select o.name, o.settings -> 'timezone' as timezone, o.created_at as "createdAt", p.name as provider,
      p.logo_url as "logoUrl", p.accent_color as "accentColor"
    from organizations o cross join lateral report_provider(o.id) p where o.id = ? and o.deleted_at is null`,
    [orgId],
  );
  return rows[0];
}
