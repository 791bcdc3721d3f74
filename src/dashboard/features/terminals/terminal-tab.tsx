import { Group, Stack, Text } from '@mantine/core';
import { IconPlayerStop, IconTerminal2 } from '@tabler/icons-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import type { Device } from '../../api/index.ts';
import { LiveTerminal, type TerminalStanding } from '../../live/index.ts';
import { useMe } from '../../session.ts';
import { Action, formatWord, Notice } from '../../ui/index.ts';
import { Recordings } from './recordings.tsx';
import { openScreen, type Screen } from './screen.ts';
import styles from './terminal.module.css';

/** A terminal of the device, and the recordings of earlier ones. */
export function TerminalTab({ device }: { device: Device }) {
  const [attempt, setAttempt] = useState(0);
  const isOffline = device.presence.state !== 'connected';
  return (
    <Stack>
      {attempt === 0 ? (
        <Begin isOffline={isOffline} onOpen={() => setAttempt(1)} />
      ) : (
        <OpenTerminal key={attempt} device={device} onAgain={() => setAttempt(attempt + 1)} />
      )}
      <Recordings deviceId={device.id} />
    </Stack>
  );
}

function Begin({ isOffline, onOpen }: { isOffline: boolean; onOpen: () => void }) {
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">
        A terminal runs with the rights of the agent, which are those of an administrator. What it shows is
        recorded and kept for 90 days. What is typed without being shown, such as a password, is not. People
        who are signed in at the device are told.
      </Text>
      <Action
        icon={IconTerminal2}
        refusal={isOffline ? 'The device is not connected.' : undefined}
        onClick={onOpen}
      >
        Open a terminal
      </Action>
    </Stack>
  );
}

function OpenTerminal({ device, onAgain }: { device: Device; onAgain: () => void }) {
  const element = useRef<HTMLDivElement>(null);
  const live = useRef<LiveTerminal>(undefined);
  const [standing, setStanding] = useState<TerminalStanding>({ state: 'opening' });
  const { id } = device;
  useEffect(() => {
    const place = element.current;
    if (place === null) return undefined;
    const screen = openScreen(place);
    screen.fit();
    const terminal = new LiveTerminal({ deviceId: id, screen: surfaceOf(screen), onStanding: setStanding });
    live.current = terminal;
    screen.terminal.onData((text) => terminal.type(text));
    screen.terminal.onResize((size) => terminal.resize({ cols: size.cols, rows: size.rows }));
    screen.terminal.focus();
    const watched = new ResizeObserver(() => screen.fit());
    watched.observe(place);
    return () => {
      watched.disconnect();
      terminal.leave();
      screen.dispose();
    };
  }, [id]);
  const isOver = standing.state === 'ended' || standing.state === 'refused';
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Standing standing={standing} />
        {isOver ? (
          <Action variant="default" onClick={onAgain}>
            Open another
          </Action>
        ) : (
          <Action variant="default" icon={IconPlayerStop} onClick={() => live.current?.close()}>
            End the terminal
          </Action>
        )}
      </Group>
      <section
        ref={element}
        className={styles['screen']}
        aria-label={`Terminal of ${device.displayName ?? device.hostname}`}
      />
    </Stack>
  );
}

/** No smaller than a shell can use, and no larger than the server allows. */
const within = (value: number, least: number, most: number) => Math.min(Math.max(value, least), most);

const surfaceOf = ({ terminal }: Screen) => ({
  write: (text: string, onShown: () => void) => terminal.write(text, onShown),
  size: () => ({ cols: within(terminal.cols, 2, 500), rows: within(terminal.rows, 1, 300) }),
});

const NOTICES = {
  shown: 'The people who are signed in at the device were told.',
  nobody: 'No one is signed in at the device.',
  failed: 'The people at the device could not be told.',
} as const;

const ENDS: Partial<Record<Extract<TerminalStanding, { state: 'ended' }>['reason'], string>> = {
  closed: 'You have ended the terminal.',
  unattended: 'The terminal has ended, because it had no viewer for some minutes.',
  too_long: 'The terminal has ended after eight hours.',
  access_ended: 'The terminal has ended, because your rights have changed.',
  switched_off: 'The terminal has ended: the organization does not allow terminals any more.',
  device_moved: 'The terminal has ended, because the device was moved.',
  recording_failed: 'The terminal has ended, because it could not be recorded.',
  recording_full: 'The terminal has ended, because its recording has reached the largest size.',
  replaced: 'The terminal is shown in another window.',
};

/** Says how the terminal stands, who sees it, and that it is recorded. */
function Standing({ standing }: { standing: TerminalStanding }) {
  const { user } = useMe();
  switch (standing.state) {
    case 'opening':
      return <Line>The terminal is being opened.</Line>;
    case 'open':
      return (
        <Line>
          {`Recorded. ${standing.shell}, seen by ${user.email}. ${NOTICES[standing.notice]}`}
          {standing.mode === 'lines' && ' The device has no terminal of its own, so it gets whole lines.'}
        </Line>
      );
    case 'lost':
      return <Notice tone="warning">The connection is lost. The terminal goes on and is continued.</Notice>;
    case 'ended':
      return <Line>{ENDS[standing.reason] ?? endOf(standing)}</Line>;
    case 'refused':
      return <Notice tone="warning">{standing.message}</Notice>;
    default:
      return standing satisfies never;
  }
}

const endOf = ({ reason, exitCode }: Extract<TerminalStanding, { state: 'ended' }>) =>
  reason === 'exited'
    ? `The shell has ended${exitCode === null ? '' : ` with ${exitCode}`}.`
    : `The terminal has ended: ${formatWord(reason).toLowerCase()}.`;

const Line = ({ children }: { children: ReactNode }) => (
  <Text size="sm" role="status">
    {children}
  </Text>
);
