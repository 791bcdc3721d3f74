import { Tooltip, VisuallyHidden } from '@mantine/core';
import { useElementSize } from '@mantine/hooks';
import { useMemo, useState, type KeyboardEvent, type PointerEvent } from 'react';
import { countsText, describeHistogram, histogramOf } from './histogram.ts';
import { LEVELS, type LogRow } from './log-row.ts';
import { shortTimeIn } from './log-time.ts';
import styles from './histogram.module.css';

const HEIGHT = 44;
/** In pixels; narrower bars look alike. */
const BAR = 9;

/** How many entries of each severity there were over the loaded time. A part of it is chosen by dragging or by keys. */
export function HistogramChart({
  rows,
  zone,
  onZoom,
}: {
  rows: readonly LogRow[];
  zone: string;
  /** Both ends in milliseconds. */
  onZoom: (from: number, to: number) => void;
}) {
  const { ref, width } = useElementSize<HTMLDivElement>();
  const room = Math.max(10, Math.floor(width / BAR));
  const histogram = useMemo(() => histogramOf(rows, room), [rows, room]);
  const { buckets, most } = histogram;
  const [cursor, setCursor] = useState(0);
  /** The bucket where a selection began. */
  const [start, setStart] = useState<number>();
  const [isDragging, setDragging] = useState(false);
  const timeText = (at: number) => shortTimeIn(zone, at);

  const last = buckets.length - 1;
  const place = Math.max(0, Math.min(last, cursor));
  const chosen = { from: Math.min(place, start ?? place), to: Math.max(place, start ?? place) };
  const [first, end] = [buckets[chosen.from], buckets[chosen.to]];
  const bucket = buckets[place];
  const zoom = () => {
    setStart(undefined);
    setDragging(false);
    // The end of a bucket belongs to the next one.
    if (first !== undefined && end !== undefined) onZoom(first.from, end.to - 1);
  };
  const placeOf = (event: PointerEvent<HTMLDivElement>): number => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.max(0, Math.min(last, Math.floor(((event.clientX - box.left) / box.width) * buckets.length)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = (to: number) => {
      setStart(event.shiftKey ? (start ?? place) : undefined);
      setCursor(Math.max(0, Math.min(last, to)));
    };
    const steps: Record<string, () => void> = {
      ArrowLeft: () => move(place - 1),
      ArrowRight: () => move(place + 1),
      Home: () => move(0),
      End: () => move(last),
      Enter: zoom,
      Escape: () => setStart(undefined),
    };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    step();
  };
  const valueText =
    first === undefined || end === undefined || bucket === undefined
      ? 'No entries'
      : `${timeText(first.from)} to ${timeText(end.to)}: ${
          start === undefined ? countsText(bucket.counts) : `${chosen.to - chosen.from + 1} bars chosen`
        }`;
  if (buckets.length === 0) return <div className={styles['chart']} ref={ref} />;
  const barWidth = 100 / buckets.length;
  return (
    <div>
      <VisuallyHidden>{describeHistogram(histogram, timeText)}</VisuallyHidden>
      <Tooltip.Floating label={valueText} disabled={isDragging} fz="xs">
        <div
          ref={ref}
          className={styles['chart']}
          role="slider"
          tabIndex={0}
          aria-label="Entries over time. Arrows move, with Shift they choose a range, Enter reads only that range"
          aria-valuemin={0}
          aria-valuemax={last}
          aria-valuenow={place}
          aria-valuetext={valueText}
          onKeyDown={onKeyDown}
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            const at = placeOf(event);
            setCursor(at);
            setStart(at);
            setDragging(true);
          }}
          onPointerMove={(event) => setCursor(placeOf(event))}
          onPointerUp={() => isDragging && zoom()}
          onPointerCancel={() => {
            setStart(undefined);
            setDragging(false);
          }}
        >
          <svg className={styles['svg']} viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" aria-hidden>
            {buckets.map(({ from, counts }, index) => {
              let top = HEIGHT;
              return LEVELS.map((level) => {
                if (counts[level] === 0) return null;
                // A single critical entry among thousands is still seen.
                const height = Math.max(1.5, (counts[level] / most) * (HEIGHT - 6));
                top -= height;
                return (
                  <rect
                    key={`${from}-${level}`}
                    className={styles[level]}
                    x={index * barWidth + barWidth * 0.08}
                    width={barWidth * 0.84}
                    y={top}
                    height={height}
                  />
                );
              });
            })}
            <rect
              className={styles['chosen']}
              x={chosen.from * barWidth}
              width={(chosen.to - chosen.from + 1) * barWidth}
              y={0}
              height={HEIGHT}
            />
          </svg>
          <div className={styles['axis']} aria-hidden>
            <span>{timeText(buckets[0]?.from ?? 0)}</span>
            <span>{timeText(buckets.at(-1)?.to ?? 0)}</span>
          </div>
        </div>
      </Tooltip.Floating>
    </div>
  );
}
