import { z } from 'zod';
import {
  dateOf,
  GraphId,
  type Kind,
  listAll,
  Moment,
  oneLine,
  partOf,
  Removed,
  removedItem,
  userPath,
} from './kind.ts';

const Folder = z.object({ id: GraphId, displayName: z.string().nullish() });
const ListedContact = z.looseObject({
  id: GraphId,
  changeKey: z.string().max(500).nullish(),
  displayName: z.string().nullish(),
  lastModifiedDateTime: Moment,
  emailAddresses: z
    .array(z.object({ address: z.string().nullish() }))
    .nullish()
    .catch(null),
});

/** The folder that is not listed: an empty id stands for it. */
const OWN = { id: '', path: '/Contacts' };

/** Contacts, whose content is what the list says of them. */
export const contacts: Kind = {
  name: 'contacts',
  hasDelta: true,

  async containers(graph, user) {
    const folders = await listAll(graph, `${userPath(user)}/contactFolders?$top=100`, Folder);
    return [
      OWN,
      ...folders.map(({ id, displayName }) => ({ id, path: `/Contacts/${oneLine(displayName, 200)}` })),
    ];
  },

  firstPage: (user, { id }) =>
    id === ''
      ? `${userPath(user)}/contacts/delta`
      : `${userPath(user)}/contactFolders/${partOf(id)}/contacts/delta`,

  read(record, { path }) {
    const removed = Removed.safeParse(record);
    if (removed.success) return removedItem(removed.data.id);
    const contact = ListedContact.parse(record);
    const address = oneLine(contact.emailAddresses?.[0]?.address, 320);
    return {
      ...removedItem(contact.id),
      isRemoved: false,
      etag: contact.changeKey ?? undefined,
      name: oneLine(contact.displayName) || address,
      parentPath: path,
      itemDate: dateOf(contact.lastModifiedDateTime),
      metadata: { address },
      record,
    };
  },

  // oxlint-disable-next-line typescript/require-await -- the content is there already, and others arrive
  async *content(_graph, _user, { record }) {
    yield Buffer.from(JSON.stringify(record));
  },
};
