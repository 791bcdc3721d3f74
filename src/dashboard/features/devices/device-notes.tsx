import { Button, Checkbox, Group, Stack, Text, Textarea } from '@mantine/core';
import { IconPencil, IconPin, IconPinnedOff, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, type Device, useApiChange } from '../../api/index.ts';
import { useMe, useRefusal } from '../../session.ts';
import {
  asError,
  ConfirmDialog,
  Failure,
  MenuEntry,
  Modal,
  Notice,
  RowMenu,
  useSubmit,
  When,
} from '../../ui/index.ts';
import { DialogForm } from './device-dialogs.tsx';

const REFRESHES = ['GET /devices/{id}/notes', 'GET /devices/{id}/timeline'] as const;
const TEXT_MAX = 4000;
const PINNED_SHOWN = '5';

/** A note as the list and the timeline have it. */
interface Note {
  id: string;
  text: string;
  isPinned: boolean;
  /** The id of the author. */
  by: string | null;
}

/** Writes a note about the device. Ctrl and Enter add it as well. */
export function NoteComposer({ device }: { device: Device }) {
  const refusal = useRefusal('devices:write');
  const [text, setText] = useState('');
  const [isPinned, setPinned] = useState(false);
  const add = useApiChange('POST /devices/{id}/notes', { refreshes: REFRESHES });
  const { onSubmit, isBusy, failure } = useSubmit(async () => {
    await add.mutateAsync({ params: { id: device.id }, body: { text, isPinned } });
    setText('');
    setPinned(false);
  });
  if (refusal !== undefined) return null;
  return (
    <form onSubmit={onSubmit}>
      <Stack gap="xs">
        <Textarea
          aria-label="A note about this device"
          placeholder="A note about this device, for whoever looks at it next"
          autosize
          minRows={2}
          maxRows={12}
          maxLength={TEXT_MAX}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && text.trim() !== '') {
              event.currentTarget.form?.requestSubmit();
            }
          }}
        />
        {text !== '' && (
          <Group justify="flex-end">
            <Checkbox
              label="Show on the summary"
              checked={isPinned}
              onChange={(event) => setPinned(event.currentTarget.checked)}
            />
            <Button type="submit" loading={isBusy} disabled={text.trim() === ''}>
              Add note
            </Button>
          </Group>
        )}
        {failure !== undefined && <Failure error={failure} />}
      </Stack>
    </form>
  );
}

/** The notes that are pinned, above everything else about the device. */
export function PinnedNotes({ device }: { device: Device }) {
  const notes = useQuery(
    apiQuery('GET /devices/{id}/notes', {
      params: { id: device.id },
      query: { pinned: 'true', limit: PINNED_SHOWN },
    }),
  );
  return notes.data?.data.map(({ createdBy, authorName, createdAt, ...note }) => (
    <Notice
      key={note.id}
      tone="info"
      icon={IconPin}
      title={
        <Group gap="xs" justify="space-between">
          <Text size="sm" fw={600}>
            {authorName}, <When at={createdAt} />
          </Text>
          <NoteActions deviceId={device.id} note={{ ...note, by: createdBy }} />
        </Group>
      }
    >
      <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {note.text}
      </Text>
    </Notice>
  ));
}

/** What a person can do with a note. */
export function NoteActions({
  deviceId,
  note: { id, text, isPinned, by },
}: {
  deviceId: string;
  note: Note;
}) {
  const me = useMe();
  const [dialog, setDialog] = useState<'edit' | 'delete'>();
  const [failure, setFailure] = useState<Error>();
  const refusal = useRefusal('devices:write');
  const deletesAll = useRefusal('devices:delete');
  const change = useApiChange('PATCH /devices/{id}/notes/{noteId}', { refreshes: REFRESHES });
  const remove = useApiChange('DELETE /devices/{id}/notes/{noteId}', { refreshes: REFRESHES });
  const params = { id: deviceId, noteId: id };
  const isOwn = by === me.user.id;
  const close = () => setDialog(undefined);
  const pin = () => {
    setFailure(undefined);
    change.mutateAsync({ params, body: { isPinned: !isPinned } }).catch((error: unknown) => {
      setFailure(asError(error));
    });
  };
  return (
    <>
      <RowMenu label="Actions on the note">
        <MenuEntry icon={isPinned ? IconPinnedOff : IconPin} refusal={refusal} onClick={pin}>
          {isPinned ? 'Take off the summary' : 'Show on the summary'}
        </MenuEntry>
        <MenuEntry
          icon={IconPencil}
          refusal={refusal ?? (isOwn ? undefined : 'Only the author can change the text.')}
          onClick={() => setDialog('edit')}
        >
          Edit
        </MenuEntry>
        <MenuEntry
          icon={IconTrash}
          refusal={refusal ?? (isOwn ? undefined : deletesAll)}
          onClick={() => setDialog('delete')}
        >
          Delete
        </MenuEntry>
      </RowMenu>
      {failure !== undefined && <Failure error={failure} />}
      <Modal opened={dialog === 'edit'} onClose={close} title="Edit the note">
        <EditForm
          text={text}
          onClose={close}
          save={(changed) => change.mutateAsync({ params, body: { text: changed } })}
        />
      </Modal>
      <ConfirmDialog
        opened={dialog === 'delete'}
        onClose={close}
        title="Delete the note"
        question="The note is deleted for everybody."
        confirm="Delete"
        color="red"
        run={() => remove.mutateAsync({ params })}
      />
    </>
  );
}

function EditForm({
  text,
  save,
  onClose,
}: {
  text: string;
  save: (text: string) => Promise<unknown>;
  onClose: () => void;
}) {
  const [changed, setChanged] = useState(text);
  return (
    <DialogForm confirm="Save" isReady={changed.trim() !== ''} onClose={onClose} run={() => save(changed)}>
      <Textarea
        label="Note"
        autosize
        minRows={3}
        maxRows={16}
        maxLength={TEXT_MAX}
        value={changed}
        onChange={(event) => setChanged(event.currentTarget.value)}
      />
    </DialogForm>
  );
}
