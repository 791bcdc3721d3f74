import { ActionIcon, Button, Checkbox, Group, Popover, Stack, Text, TextInput } from '@mantine/core';
import { IconBookmark, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { z } from 'zod';
import { apiQuery, type SavedView, useApiChange } from '../api/index.ts';
import { useMe } from '../session.ts';
import { useRemembered } from './remembered.ts';
import { Failure } from './states.tsx';

/** Views that earlier releases kept in the browser. */
const EarlierView = z.object({ name: z.string(), search: z.record(z.string(), z.unknown()) });
type EarlierView = z.infer<typeof EarlierView>;
const EarlierViews = z.array(EarlierView);

/**
 * The saved views of a person for a list, and those that colleagues share. A view is a name for an address of a page,
 * without its path.
 * @param props.name  the list, such as "audit"
 */
export function SavedViews({
  name: list,
  current,
  hint = 'A view keeps what is chosen here under a name.',
  canSave = true,
  onOpen,
}: {
  name: string;
  current: object;
  /** Stands in place of views, until there is one. */
  hint?: string;
  /** False where nothing is chosen that could be kept. */
  canSave?: boolean;
  onOpen: (search: Record<string, unknown>) => void;
}) {
  const { user } = useMe();
  const [earlier, setEarlier] = useRemembered(`muster-${list}-views-${user.id}`, EarlierViews);
  const [isOpened, setOpened] = useState(false);
  const hasEarlier = earlier !== undefined && earlier.length > 0;
  const query = useQuery({
    ...apiQuery('GET /saved-views', { query: { list } }),
    // Most visits of a list want none of its views.
    enabled: isOpened || hasEarlier,
  });
  const refreshes = ['GET /saved-views'] as const;
  const save = useApiChange('POST /saved-views', { refreshes });
  const change = useApiChange('PATCH /saved-views/{id}', { refreshes });
  const remove = useApiChange('DELETE /saved-views/{id}', { refreshes });
  const { mutateAsync: saveOne } = save;
  const known = query.data?.data;
  const isMoving = useRef(false);
  // Brings what the browser has kept to the server, and keeps what could not be stored there for the next visit.
  useEffect(() => {
    if (!hasEarlier || known === undefined || isMoving.current) return;
    isMoving.current = true;
    const move = async (view: EarlierView): Promise<EarlierView[]> => {
      if (known.some(({ isOwn, name }) => isOwn && isSame(name, view.name))) return [];
      try {
        await saveOne({ body: { list, ...view } });
        return [];
      } catch {
        return [view];
      }
    };
    void Promise.all(earlier.map(move)).then((left) => setEarlier(left.flat()));
  }, [hasEarlier, earlier, known, list, saveOne, setEarlier]);
  const views = known ?? [];
  return (
    <ViewsMenu
      views={views}
      hint={hint}
      canSave={canSave}
      onShow={() => setOpened(true)}
      failure={save.error ?? change.error ?? remove.error ?? query.error}
      onOpen={({ search }) => onOpen(search)}
      onSave={(wanted, isShared) => {
        const chosen = Object.entries(current).filter(([, value]) => value !== undefined);
        const body = { search: Object.fromEntries(chosen) as Record<string, unknown>, isShared };
        const own = views.find((view) => view.isOwn && isSame(view.name, wanted));
        if (own === undefined) save.mutate({ body: { list, name: wanted, ...body } });
        else change.mutate({ params: { id: own.id }, body });
      }}
      onRemove={({ id }) => remove.mutate({ params: { id } })}
    />
  );
}

function Remark({ view: { isOwn, isShared, ownerName } }: { view: SavedView }) {
  if (isOwn && !isShared) return null;
  return (
    <Text size="xs" span>
      {isOwn ? 'Shared with your colleagues' : `Shared by ${ownerName}`}
    </Text>
  );
}

const isSame = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();

/** A button with names for what is chosen on a page, each of which leads to it, and a field for another one. */
function ViewsMenu({
  views,
  hint,
  canSave,
  failure,
  onShow,
  onOpen,
  onSave,
  onRemove,
}: {
  views: readonly SavedView[];
  hint: string;
  canSave: boolean;
  /** Why the last change failed. */
  failure: Error | null;
  /** Called when the views are about to be shown. */
  onShow: () => void;
  onOpen: (view: SavedView) => void;
  onSave: (name: string, isShared: boolean) => void;
  onRemove: (view: SavedView) => void;
}) {
  const [name, setName] = useState('');
  const [isShared, setShared] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const wanted = name.trim();
  const save = () => {
    if (wanted === '' || !canSave) return;
    onSave(wanted, isShared);
    setName('');
    setShared(false);
  };
  return (
    <Popover position="bottom-end" width={280} shadow="md" trapFocus opened={isOpen} onChange={setOpen}>
      <Popover.Target>
        <Button
          variant="default"
          leftSection={<IconBookmark size={14} aria-hidden />}
          onClick={() => {
            if (!isOpen) onShow();
            setOpen(!isOpen);
          }}
        >
          Views
        </Button>
      </Popover.Target>
      <Popover.Dropdown p="xs" aria-label="Saved views">
        {views.length === 0 && (
          <Text size="xs" mb="xs">
            {hint}
          </Text>
        )}
        {views.map((view) => (
          <Group key={view.id} gap={0} wrap="nowrap">
            <Button
              variant="subtle"
              color="gray"
              justify="flex-start"
              flex={1}
              onClick={() => {
                setOpen(false);
                onOpen(view);
              }}
            >
              <Stack gap={0} align="flex-start">
                {view.name}
                <Remark view={view} />
              </Stack>
            </Button>
            {view.isOwn && (
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={`Delete the view ${view.name}`}
                onClick={() => onRemove(view)}
              >
                <IconTrash size={14} />
              </ActionIcon>
            )}
          </Group>
        ))}
        {failure !== null && <Failure error={failure} />}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            save();
          }}
        >
          <Group gap={4} mt={4} wrap="nowrap">
            <TextInput
              flex={1}
              aria-label="Name of the view"
              placeholder="Name of this view"
              maxLength={60}
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            <Button type="submit" disabled={wanted === '' || !canSave}>
              {views.some((view) => view.isOwn && isSame(view.name, wanted)) ? 'Replace' : 'Save'}
            </Button>
          </Group>
          {wanted !== '' && (
            <Checkbox
              mt="xs"
              size="xs"
              label="Share with my colleagues"
              checked={isShared}
              onChange={(event) => setShared(event.currentTarget.checked)}
            />
          )}
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
