import { Group, SegmentedControl, Slider, Stack, Text } from '@mantine/core';
import { IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import { Action } from '../../ui/index.ts';
import type { Cast, CastEvent } from './cast.ts';
import { openScreen, type Screen } from './screen.ts';
import styles from './terminal.module.css';

const SPEEDS = ['1', '2', '4', '16'] as const;
const FRAME_MS = 50;

const timeOf = (seconds: number) =>
  `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;

/** Replays a recording. Pauses are cut; the slider moves to any moment. */
export default function Player({ cast, label }: { cast: Cast; label: string }) {
  const element = useRef<HTMLDivElement>(null);
  const replay = useRef<Replay>(undefined);
  const [at, setAt] = useState(0);
  const [isPlaying, setPlaying] = useState(true);
  const [speed, setSpeed] = useState<string>('1');
  useEffect(() => {
    if (element.current === null) return undefined;
    const screen = openScreen(element.current, { disableStdin: true });
    screen.terminal.resize(cast.cols, cast.rows);
    replay.current = new Replay(screen, cast);
    return () => screen.dispose();
  }, [cast]);
  useEffect(() => {
    if (!isPlaying) return undefined;
    const timer = setInterval(() => {
      setAt((before) => {
        const next = Math.min(cast.duration, before + (FRAME_MS / 1000) * Number(speed));
        if (next === cast.duration) setPlaying(false);
        return next;
      });
    }, FRAME_MS);
    return () => clearInterval(timer);
  }, [isPlaying, speed, cast]);
  useEffect(() => replay.current?.show(at), [at]);
  const play = () => {
    if (at >= cast.duration) setAt(0);
    setPlaying(true);
  };
  return (
    <Stack gap="xs">
      <section ref={element} className={styles['player']} aria-label={label} />
      <Group>
        {isPlaying ? (
          <Action variant="default" icon={IconPlayerPause} onClick={() => setPlaying(false)}>
            Pause
          </Action>
        ) : (
          <Action variant="default" icon={IconPlayerPlay} onClick={play}>
            Play
          </Action>
        )}
        <SegmentedControl
          size="xs"
          aria-label="Speed"
          data={SPEEDS.map((value) => ({ value, label: `${value}×` }))}
          value={speed}
          onChange={setSpeed}
        />
        <Slider
          flex={1}
          min={0}
          max={Math.max(cast.duration, 0.1)}
          step={0.1}
          value={at}
          label={timeOf}
          thumbLabel="Moment of the recording"
          onChange={(value) => {
            setPlaying(false);
            setAt(value);
          }}
        />
        <Text size="sm">
          {timeOf(at)} / {timeOf(cast.duration)}
        </Text>
      </Group>
    </Stack>
  );
}

/** Brings the screen to a moment: forward by the events in between, backward from the beginning. */
class Replay {
  readonly #screen: Screen;
  readonly #cast: Cast;
  #next = 0;
  #at = 0;

  constructor(screen: Screen, cast: Cast) {
    this.#screen = screen;
    this.#cast = cast;
  }

  show(at: number): void {
    const { terminal } = this.#screen;
    if (at < this.#at) {
      terminal.reset();
      terminal.resize(this.#cast.cols, this.#cast.rows);
      this.#next = 0;
    }
    this.#at = at;
    for (let event = this.#event; event !== undefined && event.at <= at; event = this.#event) {
      this.#next += 1;
      if (event.kind === 'output') terminal.write(event.text);
      else if (event.kind === 'size') terminal.resize(event.cols, event.rows);
    }
  }

  get #event(): CastEvent | undefined {
    return this.#cast.events[this.#next];
  }
}
