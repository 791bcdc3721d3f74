import { Button, getDefaultZIndex, Group, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { createSpotlight, Spotlight, type SpotlightActionGroupData, useSpotlight } from '@mantine/spotlight';
import { IconHistory, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, type NavigateOptions } from '@tanstack/react-router';
import { useState, useEffect, useRef } from 'react';
import { apiQuery, type SearchResult, answerStepUpWith, call, holdTokens } from '../api/index.ts';
import { useRecentDevices } from '../features/devices/index.ts';
import { refusalOf, useMe } from '../session.ts';
import { formatWord, useEscape, KeysDialog, Failure, useSubmit, Modal, ButtonLink } from '../ui/index.ts';
import { NAVIGATION, paletteOpensWith } from './navigation.ts';

/** The overlays of all pages. They are loaded after the page, which does not wait for them. */
export function Overlays({ showsKeys, onKeysClose }: { showsKeys: boolean; onKeysClose: () => void }) {
  return (
    <>
      <KeyboardHelp opened={showsKeys} onClose={onKeysClose} />
      <StepUpDialog />
      <Palette />
    </>
  );
}

/** Over the dialog whose action it is asked for, whichever of the two came first into the page. */
const OVER_DIALOGS = getDefaultZIndex('overlay');

/**
 * Asks for the second factor, or leads to its set-up, if a request needs one that the session does not have yet, and
 * then repeats the request.
 */
function StepUpDialog() {
  const [isOpen, setOpen] = useState(false);
  /** Asked each time: it may have been set up meanwhile, also elsewhere. */
  const [hasFactor, setHasFactor] = useState(true);
  const [code, setCode] = useState('');
  /** The requests that wait: several of one page may ask at once. */
  const waiting = useRef<((proven: boolean) => void)[]>([]);
  useEffect(() => {
    answerStepUpWith(async () => {
      const me = await call('GET /users/me', {}).catch(() => undefined);
      setHasFactor(me?.mfaEnabled ?? true);
      setOpen(true);
      return new Promise<boolean>((resolve) => {
        waiting.current.push(resolve);
      });
    });
    return () => answerStepUpWith(() => Promise.resolve(false));
  }, []);
  const end = (proven: boolean) => {
    setOpen(false);
    setCode('');
    for (const answer of waiting.current.splice(0)) answer(proven);
  };
  const { onSubmit, isBusy, failure, forget } = useSubmit(async () => {
    holdTokens(await call('POST /auth/mfa/step-up', { body: { code: code.trim() } }));
    end(true);
  });
  const cancel = () => {
    forget();
    end(false);
  };
  if (!hasFactor) return <SetUpFirst isOpen={isOpen} onClose={cancel} />;
  return (
    <Modal opened={isOpen} onClose={cancel} title="Confirm that it is you" centered zIndex={OVER_DIALOGS}>
      <form onSubmit={onSubmit}>
        <Stack>
          <Text size="sm">This action needs a code for two-factor authentication.</Text>
          <TextInput
            label="Code"
            description="Six digits of your authenticator app, or a recovery code."
            value={code}
            onChange={(event) => setCode(event.currentTarget.value)}
            autoComplete="one-time-code"
            data-autofocus
            required
          />
          {failure !== undefined && <Failure error={failure} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={cancel}>
              Cancel
            </Button>
            <Button type="submit" loading={isBusy}>
              Confirm
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

/** An account without a second factor has no code to give. */
function SetUpFirst({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      title="Set up two-factor authentication"
      centered
      zIndex={OVER_DIALOGS}
    >
      <Stack>
        <Text size="sm">
          This action needs a code of an authenticator app, and your account has none yet. Set it up in your
          profile: it takes a minute, with any app that shows six-digit codes. Then repeat the action.
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <ButtonLink data-autofocus onClick={onClose} to="/profile">
            Go to the profile
          </ButtonLink>
        </Group>
      </Stack>
    </Modal>
  );
}

const KEYS: [string[], string][] = [
  [['Ctrl', 'K'], 'Search devices, pages and actions'],
  [['?'], 'Show this list'],
  [['/'], 'Go to the search field of the page'],
  [['j', 'k'], 'Next and previous row of a table'],
  [['Enter'], 'Open the row'],
  [['Space'], 'Select the row'],
  [['Esc'], 'Close a dialog or a panel'],
];

const KeyboardHelp = (props: { opened: boolean; onClose: () => void }) => (
  <KeysDialog title="Keys" keys={KEYS} {...props} />
);

const [store, spotlight] = createSpotlight();
paletteOpensWith(spotlight.open);

/** The global search: pages by name, and everything that the search of the server finds. */
function Palette() {
  const me = useMe();
  const navigate = useNavigate();
  const [query, setQuery] = useState('');
  const [q] = useDebouncedValue(query.trim(), 150);
  const found = useQuery({
    ...apiQuery('GET /search', { query: { q, limit: '20' } }),
    enabled: q.length >= 2,
  });
  useEscape(useSpotlight(store).opened, spotlight.close);
  const wanted = query.trim().normalize('NFC').toLowerCase();
  const recent = useRecentDevices(me.user.id)
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .map(({ id, name }) => ({
      id: `recent:${id}`,
      label: name,
      leftSection: <IconHistory size={18} aria-hidden />,
      onClick: () => void navigate({ to: '/devices/$deviceId', params: { deviceId: id } }),
    }));
  const pages = NAVIGATION.filter(({ requires }) => refusalOf(me, requires) === undefined)
    .filter(({ label }) => label.toLowerCase().includes(wanted))
    .map(({ label, to, icon: Icon }) => ({
      id: `page:${label}`,
      label,
      leftSection: <Icon size={18} aria-hidden />,
      onClick: () => void navigate({ to }),
    }));
  const results = (q.length >= 2 ? (found.data?.results ?? []) : []).flatMap((result) => {
    const page = pageOf(result);
    return page === undefined
      ? []
      : [
          {
            id: `${result.type}:${result.id}`,
            label: result.title,
            description: [formatWord(result.type), result.description].filter(Boolean).join(' · '),
            onClick: () => void navigate(page),
          },
        ];
  });
  const groups: SpotlightActionGroupData[] = [
    { group: 'Recent devices', actions: recent },
    { group: 'Found', actions: results },
    { group: 'Pages', actions: pages },
  ].filter(({ actions }) => actions.length > 0);
  return (
    <Spotlight
      store={store}
      actions={groups}
      // The server and the filter above have searched already.
      filter={(_query, actions) => actions}
      query={query}
      onQueryChange={setQuery}
      nothingFound={found.isFetching ? 'Searching …' : 'Nothing was found.'}
      scrollable
      maxHeight={420}
      shortcut={null}
      closeOnEscape={false}
      searchProps={{
        leftSection: <IconSearch size={18} aria-hidden />,
        placeholder: 'Search devices, people, scripts, pages …',
        'aria-label': 'Search',
      }}
    />
  );
}

/** The page that shows a result of the search. */
function pageOf({ type, id, title, href }: SearchResult): NavigateOptions | undefined {
  switch (type) {
    case 'devices':
      return { to: '/devices/$deviceId', params: { deviceId: id } };
    case 'settings':
      return href === undefined ? undefined : { href };
    case 'scripts':
      return { to: '/scripts/$scriptId', params: { scriptId: id } };
    case 'alerts':
      return { to: '/alerts', search: { q: title, status: ['active', 'acknowledged', 'resolved'] } };
    default:
      return undefined;
  }
}
