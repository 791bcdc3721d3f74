import { ActionIcon, Button, Group, Popover, Text, TextInput } from '@mantine/core';
import { IconBookmark, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';
import { z } from 'zod';
import { useMe } from '../session.ts';
import { useRemembered } from './remembered.ts';

/** A view is a name for an address of a page, without its path. */
const View = z.object({ name: z.string(), search: z.record(z.string(), z.unknown()) });
const Views = z.array(View);

/**
 * The saved views of a person, which this browser remembers.
 * @param props.name  the list in the storage of the browser, such as "audit"
 */
export function SavedViews({
  name,
  current,
  onOpen,
}: {
  name: string;
  current: object;
  onOpen: (search: Record<string, unknown>) => void;
}) {
  const { user } = useMe();
  const [stored, setViews] = useRemembered(`muster-${name}-views-${user.id}`, Views);
  const views = stored ?? [];
  const others = (wanted: string) => views.filter((view) => view.name !== wanted);
  return (
    <ViewsMenu
      views={views}
      hint="A view keeps what is chosen here under a name, in this browser."
      onOpen={({ search }) => onOpen(search)}
      onSave={(wanted) => {
        const chosen = Object.entries(current).filter(([, value]) => value !== undefined);
        setViews([...others(wanted), { name: wanted, search: Object.fromEntries(chosen) }]);
      }}
      onRemove={(wanted) => setViews(others(wanted))}
    />
  );
}

/** A button with names for what is chosen on a page, each of which leads to it, and a field for another one. */
export function ViewsMenu<Named extends { name: string }>({
  views,
  hint,
  canSave = true,
  onOpen,
  onSave,
  onRemove,
}: {
  views: readonly Named[];
  /** Stands in place of views, until there is one. */
  hint: string;
  /** False where nothing is chosen that could be kept. */
  canSave?: boolean;
  onOpen: (view: Named) => void;
  onSave: (name: string) => void;
  onRemove: (name: string) => void;
}) {
  const [name, setName] = useState('');
  const [isOpen, setOpen] = useState(false);
  const wanted = name.trim();
  const save = () => {
    if (wanted === '' || !canSave) return;
    onSave(wanted);
    setName('');
  };
  return (
    <Popover position="bottom-end" width={280} shadow="md" trapFocus opened={isOpen} onChange={setOpen}>
      <Popover.Target>
        <Button
          variant="default"
          leftSection={<IconBookmark size={14} aria-hidden />}
          onClick={() => setOpen(!isOpen)}
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
          <Group key={view.name} gap={0} wrap="nowrap">
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
              {view.name}
            </Button>
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Delete the view ${view.name}`}
              onClick={() => onRemove(view.name)}
            >
              <IconTrash size={14} />
            </ActionIcon>
          </Group>
        ))}
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
              {views.some((view) => view.name === wanted) ? 'Replace' : 'Save'}
            </Button>
          </Group>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
