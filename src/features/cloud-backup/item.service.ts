import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { encodeTarHeader, TAR_END, tarPaddingOf } from '../../engine/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { invalid, notFound, AppError } from '../../platform/errors.ts';
import { FairSlots } from '../../platform/fair-slots.ts';
import { StreamAnswer } from '../../platform/http/stream-answer.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import type { CloudItem } from './cloud-backup.model.ts';
import { accessibleItems, matchingItemIds } from './cloud-backup.queries.ts';
import { type ContentParts, readContent } from './content-store.ts';
import { iCalendarOf, vCardOf } from './export-formats.ts';
import type { ItemQuery } from './item.schema.ts';

export async function listItems(ctx: Context, query: ItemQuery) {
  const { orgId, configId, userEmail, itemType, isDeleted, limit, after } = query;
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const items = accessibleItems(ctx).orderBy('id');
  if (query.search !== undefined) {
    void items.findByIds(await matchingItemIds(ctx, { ...query, search: query.search, limit: limit + 1 }));
  } else {
    void items
      .where(omitUndefined({ org_id: orgId, config_id: configId, user_email: userEmail, kind: itemType }))
      .limit(limit + 1);
    if (isDeleted === true) void items.whereNotNull('deleted_at');
    if (isDeleted === false) void items.whereNull('deleted_at');
    if (after !== undefined) void items.where('id', '>', after);
  }
  const found = await items;
  const page = found.slice(0, limit);
  return {
    data: page.map(toItemResponse),
    nextAfter: found.length > limit ? (page.at(-1)?.id ?? null) : null,
  };
}

export async function findItem(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<CloudItem> {
  const item = await accessibleItems(ctx).findById(id);
  if (item === undefined) throw notFound('Cloud backup item');
  return item;
}

interface VersionRow {
  id: string;
  bytes: string;
  captured_at: Date;
  superseded_at: Date | null;
}

const VERSIONS_MAX = 1000;

export async function listVersions(ctx: Context, itemId: string) {
  const item = await findItem(ctx, itemId);
  const rows = await ctx
    .tx('c2c_versions')
    .where({ org_id: item.orgId, item_id: itemId })
    .orderBy([
      { column: 'captured_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .limit(VERSIONS_MAX + 1)
    .select<VersionRow[]>('id', 'bytes', 'captured_at', 'superseded_at');
  return {
    isCut: rows.length > VERSIONS_MAX,
    data: rows.slice(0, VERSIONS_MAX).map((row) => ({
      id: row.id,
      sizeBytes: row.bytes,
      capturedAt: row.captured_at,
      supersededAt: row.superseded_at,
      isNewest: row.id === item.versionId,
    })),
  };
}

/** The item with an earlier content instead of the newest one. */
export async function withVersion(
  ctx: Pick<Context, 'tx'>,
  item: StoredItem,
  versionId: string,
): Promise<StoredItem> {
  const version = await ctx
    .tx('c2c_versions')
    .where({ org_id: item.orgId, item_id: item.id, id: versionId })
    .first<{ bytes: string } | undefined>('bytes');
  if (version === undefined) throw notFound('Content of the cloud backup item');
  return { ...item, versionId, sizeBytes: version.bytes };
}

/** The fields that an export or a restore needs of an item with stored content. */
export type StoredItem = Pick<
  CloudItem,
  'id' | 'orgId' | 'configId' | 'kind' | 'name' | 'userEmail' | 'sizeBytes' | 'itemDate'
> & { versionId: string };

export function asStored(item: CloudItem): StoredItem | undefined {
  const { id, orgId, configId, kind, name, userEmail, sizeBytes, itemDate, versionId } = item;
  if (versionId === null) return undefined;
  return { id, orgId, configId, kind, name, userEmail, sizeBytes, itemDate, versionId };
}

/** Throws unless all items exist, belong to one configuration and have a content. */
export async function findStoredItems(
  ctx: Pick<Context, 'tx' | 'caller'>,
  itemIds: readonly string[],
): Promise<{ orgId: string; configId: string; items: StoredItem[] }> {
  const wanted = [...new Set(itemIds)];
  const items = (await accessibleItems(ctx).findByIds(wanted).orderBy('id')).flatMap(
    (item) => asStored(item) ?? [],
  );
  const [first] = items;
  if (first === undefined || items.length < wanted.length) {
    throw notFound('Cloud backup item, or its content,');
  }
  if (items.some(({ configId }) => configId !== first.configId)) {
    throw invalid('body.itemIds', 'must name items of one configuration');
  }
  return { orgId: first.orgId, configId: first.configId, items };
}

export function toItemResponse({ kind, name, deletedAt, ...item }: CloudItem) {
  return { ...item, itemType: kind, subjectOrName: name, isDeleted: deletedAt !== null, deletedAt };
}

/** Limits of concurrent downloads, per user and in total. */
const OF_PERSON = 3;
const OF_ALL = 12;
const WAIT_MS = 3000;
const RETRY_AFTER_MS = 2000;

interface Request {
  signal: AbortSignal;
  closed: Promise<void>;
}

/** Items as files: messages as .eml, events as .ics, contacts as .vcf, and files unchanged. */
export class ItemExports {
  readonly #parts: ContentParts;
  /** `StreamAnswer` disconnects a client that reads too slowly. */
  readonly #slots = new FairSlots({
    all: OF_ALL,
    waitMs: WAIT_MS,
    waitingMax: { all: 40, widest: 20 },
    refusal: () =>
      new AppError('rate_limited', 'Too many exports are running at once. Wait for some of them to end.', {
        retryAfterMs: RETRY_AFTER_MS,
      }),
  });

  constructor(parts: ContentParts) {
    this.#parts = parts;
  }

  async one(
    ctx: DetachedContext,
    { id, versionId }: { id: string; versionId?: string | undefined },
    request: Request,
  ): Promise<StreamAnswer> {
    const item = await ctx.withTenant(async (inside) => {
      const newest = asStored(await findItem(inside, id));
      return versionId === undefined || newest === undefined
        ? newest
        : withVersion(inside, newest, versionId);
    });
    if (item === undefined) {
      throw new AppError('conflict', 'The content of this item could not be fetched yet.');
    }
    await this.#turn(ctx, item.orgId, request);
    return new StreamAnswer({
      fileName: fileNameOf(item),
      type: 'application/octet-stream',
      read: () => this.#pieces(item),
      noted: {
        orgId: item.orgId,
        resourceId: item.id,
        details: { items: 1, ...(versionId === undefined ? {} : { versionId }) },
      },
    });
  }

  async many(ctx: DetachedContext, itemIds: readonly string[], request: Request): Promise<StreamAnswer> {
    const { orgId, configId, items } = await ctx.withTenant((inside) => findStoredItems(inside, itemIds));
    await this.#turn(ctx, orgId, request);
    return new StreamAnswer({
      fileName: 'cloud-backup.tar',
      type: 'application/x-tar',
      read: () => this.#archive(items),
      noted: { orgId, resourceId: configId, details: { items: items.length } },
    });
  }

  async *#archive(items: readonly StoredItem[]): AsyncGenerator<Buffer, void> {
    for (const [index, item] of items.entries()) {
      // The number makes names unique.
      const path = `cloud-backup/${harmless(item.userEmail)}/${item.kind}/${index + 1}-${fileNameOf(item)}`;
      const made = FORMS[item.kind] === undefined ? undefined : await this.#form(item);
      const size = made?.length ?? Number(item.sizeBytes ?? 0);
      yield encodeTarHeader({ path, type: 'file', size, mode: 0o600, modifiedAt: item.itemDate });
      if (made === undefined) yield* readContent(this.#parts, item);
      else yield made;
      yield Buffer.alloc(tarPaddingOf(size));
    }
    yield TAR_END;
  }

  async *#pieces(item: StoredItem): AsyncGenerator<Buffer, void> {
    if (FORMS[item.kind] === undefined) yield* readContent(this.#parts, item);
    else yield await this.#form(item);
  }

  async #form(item: StoredItem): Promise<Buffer> {
    const content = await buffer(Readable.from(readContent(this.#parts, item)));
    return FORMS[item.kind]?.(content) ?? content;
  }

  #turn({ caller }: DetachedContext, orgId: string, request: Request): Promise<void> {
    const tenant = caller.partnerId ?? caller.orgId ?? 'system';
    const holder = {
      levels: [`tenant ${tenant}`, `organization ${orgId}`],
      leaf: { key: `person ${caller.userId}`, max: OF_PERSON, waitingMax: OF_PERSON },
    };
    return this.#slots.hold(holder, request);
  }
}

/** Contents that are converted to another format. */
const FORMS: Partial<Record<StoredItem['kind'], (content: Buffer) => Buffer>> = {
  calendar: iCalendarOf,
  contacts: vCardOf,
};

const ENDINGS: Readonly<Record<StoredItem['kind'], string>> = {
  mail: '.eml',
  calendar: '.ics',
  contacts: '.vcf',
  onedrive: '',
};

const fileNameOf = ({ kind, name }: StoredItem) => `${harmless(name)}${ENDINGS[kind]}`;

const NAME_MAX = 60;

/** A file name that no system parses as a path, whatever the item is called. The extension is kept. */
function harmless(name: string): string {
  const text = name.replace(/[^\p{L}\p{N} ._@-]/gu, '_');
  const [ending = ''] = /\.[A-Za-z0-9]{1,10}$/.exec(text) ?? [];
  const characters = Array.from(text);
  const short =
    characters.length <= NAME_MAX ? text : characters.slice(0, NAME_MAX - ending.length).join('') + ending;
  return short.replace(/^[. ]+|[. ]+$/g, '') || 'item';
}
