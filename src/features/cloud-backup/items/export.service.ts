import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import type { DetachedContext } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { FairSlots } from '../../../platform/fair-slots.ts';
import { StreamAnswer } from '../../../platform/http/files/stream-answer.ts';
import { TAR_END, tarHeader, tarPadding } from '../../../platform/http/files/tar.ts';
import type { ContentParts } from '../content/content.ts';
import { readContent } from '../content/content-reader.ts';
import { asStored, findItem, findStoredItems, type StoredItem, withVersion } from './item.service.ts';
import { iCalendarOf, vCardOf } from './text-forms.ts';

/** Downloads that one person has at once, and all. */
const OF_PERSON = 3;
const OF_ALL = 12;
const WAIT_MS = 3000;
const RETRY_AFTER_MS = 2000;

interface Request {
  signal: AbortSignal;
  closed: Promise<void>;
}

/** Items as files: messages as .eml, events as .ics, contacts as .vcf, and files as they were. */
export class ItemExports {
  readonly #parts: ContentParts;
  /** A client that takes next to nothing is cut off by `StreamAnswer`. */
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
      // The number keeps names apart.
      const path = `cloud-backup/${harmless(item.userEmail)}/${item.kind}/${index + 1}-${fileNameOf(item)}`;
      const made = FORMS[item.kind] === undefined ? undefined : await this.#form(item);
      const size = made?.length ?? Number(item.sizeBytes ?? 0);
      yield tarHeader({ path, type: 'file', size, mode: 0o600, modifiedAt: item.itemDate });
      if (made === undefined) yield* readContent(this.#parts, item);
      else yield made;
      yield tarPadding(size);
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

/** Contents that are made into another form. */
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

/** A name that no system takes for a path, whatever somebody has called the item. */
const harmless = (name: string): string =>
  Array.from(name.replace(/[^\p{L}\p{N} ._@-]/gu, '_'))
    .slice(0, 60)
    .join('')
    .replace(/^[. ]+|[. ]+$/g, '') || 'item';
