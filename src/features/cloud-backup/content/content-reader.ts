import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { organizationScope } from '../../groups/index.ts';
import { readKeyMaterial } from '../../backup/index.ts';
import { withTenant } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import type { ContentParts } from './content.ts';
import { openPart, packKey, SEAL_BYTES } from './sealed-part.ts';
import { repositoryOf } from './stores.ts';

interface PartRow {
  sha256: Buffer;
  bytes: number;
  offset: string;
  pack_id: string;
  name: string;
  key_id: string;
  key_version: number;
}

const PARTS_AT_ONCE = 64;

/** The content of a version, part by part: one part is in memory at a time, and each is compared with its hash. */
export async function* readContent(
  parts: ContentParts,
  { orgId, versionId }: { orgId: string; versionId: string },
): AsyncGenerator<Buffer, void> {
  for (let position = 0; ; position += PARTS_AT_ONCE) {
    const rows = await partsOf(parts, { orgId, versionId, position });
    for (const row of rows) yield await readPart(parts, orgId, row);
    if (rows.length < PARTS_AT_ONCE) return;
  }
}

const partsOf = (
  { db }: ContentParts,
  { orgId, versionId, position }: { orgId: string; versionId: string; position: number },
): Promise<PartRow[]> =>
  withTenant(db, organizationScope(orgId), async (tx) => {
    const { rows } = await tx.raw<{ rows: PartRow[] }>(
      `select b.sha256, b.bytes, b.pack_offset as offset, p.id as pack_id, p.name,
        p.encryption_key_id as key_id, p.key_version
      from c2c_version_blobs v join c2c_blobs b on b.org_id = v.org_id and b.id = v.blob_id
      join c2c_packs p on p.org_id = b.org_id and p.id = b.pack_id
      where v.org_id = ? and v.version_id = ? and v.position >= ? order by v.position limit ${PARTS_AT_ONCE}`,
      [orgId, versionId, position],
    );
    return rows;
  });

async function readPart(
  { db, secrets, backupStore }: ContentParts,
  orgId: string,
  part: PartRow,
): Promise<Buffer> {
  const { key, repositoryId } = await withTenant(db, organizationScope(orgId), async (tx) => ({
    key: await readKeyMaterial(tx, { keyId: part.key_id, version: part.key_version }, secrets),
    repositoryId: await repositoryOf(tx, orgId),
  }));
  const first = Number(part.offset);
  const stream = await backupStore.storage.read(
    repositoryId,
    { type: 'data', name: part.name.trim(), trashedAt: null },
    { first, last: first + part.bytes + SEAL_BYTES - 1 },
  );
  if (stream === undefined) throw damaged();
  try {
    const content = openPart(packKey(key.material, part.pack_id), part.sha256, await buffer(stream));
    if (createHash('sha256').update(content).digest().equals(part.sha256)) return content;
  } catch (cause) {
    throw damaged(cause);
  }
  throw damaged();
}

const damaged = (cause?: unknown) =>
  new AppError('conflict', 'The stored content is damaged or missing.', {
    details: { code: 'DAMAGED' },
    cause,
  });
