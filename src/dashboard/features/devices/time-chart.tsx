import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { ChartLine } from './metric-charts.ts';

export interface TimeChartProps {
  /** What the chart shows, in words. */
  label: string;
  /** Where the chart begins and ends, in seconds since 1970. */
  from: number;
  to: number;
  /** In seconds since 1970. */
  times: number[];
  lines: readonly ChartLine[];
  format: (value: number) => string;
  /** The upper end of the scale. Default: the highest value. */
  max?: number | undefined;
  /** Stretches in which nothing was measured, in seconds since 1970. */
  gaps?: readonly { from: number; to: number }[] | undefined;
  /** Moments that are marked by a line, in seconds since 1970. */
  marks?: readonly number[] | undefined;
  /** Called with the stretch of time, in seconds, that was selected by dragging. */
  onSelect?: ((from: number, to: number) => void) | undefined;
}

const HEIGHT = 150;
const COLORS = ['blue', 'teal', 'orange', 'grape', 'red', 'lime', 'indigo', 'yellow'];

/** Lines over time, each with a band from its lowest to its highest value. */
export function TimeChart(props: TimeChartProps) {
  // A canvas keeps the colors with which it was drawn.
  return <Plot key={useComputedColorScheme()} {...props} />;
}

const NO_GAPS: NonNullable<TimeChartProps['gaps']> = [];
const NO_MARKS: NonNullable<TimeChartProps['marks']> = [];

function Plot({
  label,
  from,
  to,
  times,
  lines,
  format,
  max,
  gaps = NO_GAPS,
  marks = NO_MARKS,
  onSelect,
}: TimeChartProps) {
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = holder.current;
    if (element === null) return undefined;
    const style = getComputedStyle(element);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: color('--mantine-color-dimmed'),
      grid: { stroke: color('--mantine-color-default-border'), width: 1 },
    };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: { drag: { x: true, y: false, setScale: false } },
        scales: {
          x: { range: () => [from, to] },
          y: { range: (_plot, _least, most) => [0, max ?? Math.max(most * 1.05, 1)] },
        },
        axes: [
          { ...axis, values: timeTicks },
          { ...axis, size: 78, values: (_plot, values) => values.map(format) },
        ],
        series: [
          {},
          ...lines.flatMap((line, at) => {
            const stroke = color(`--mantine-color-${COLORS[at % COLORS.length]}-6`);
            const value = (_plot: uPlot, shown: number | null) => (shown === null ? '–' : format(shown));
            return [
              { label: line.label, stroke, width: 1.5, value, points: { show: false } },
              { label: `${line.label}, most`, stroke: 'transparent', value, points: { show: false } },
              { label: `${line.label}, least`, stroke: 'transparent', value, points: { show: false } },
            ];
          }),
          ...lines.flatMap(({ label: name, earlier }, at) => {
            if (earlier === undefined) return [];
            const stroke = `${color(`--mantine-color-${COLORS[at % COLORS.length]}-6`)}99`;
            const value = (_plot: uPlot, shown: number | null) => (shown === null ? '–' : format(shown));
            return [
              { label: `${name}, before`, stroke, width: 1.5, dash: [6, 4], value, points: { show: false } },
            ];
          }),
        ],
        bands: lines.map((_line, at) => ({
          series: [at * 3 + 2, at * 3 + 3],
          fill: `${color(`--mantine-color-${COLORS[at % COLORS.length]}-6`)}22`,
        })),
        hooks: {
          drawClear: [(drawn) => shade(drawn, gaps, color('--mantine-color-default-hover'))],
          draw: [(drawn) => drawMarks(drawn, marks, color('--mantine-color-red-6'))],
          setSelect: [
            (drawn) => {
              if (drawn.select.width < 8) return;
              const at = (pixel: number) => drawn.posToVal(pixel, 'x');
              onSelect?.(at(drawn.select.left), at(drawn.select.left + drawn.select.width));
            },
          ],
        },
      },
      [
        times,
        ...lines.flatMap(({ averages, highest, lowest }) => [averages, highest, lowest]),
        ...lines.flatMap(({ earlier }) => (earlier === undefined ? [] : [earlier])),
      ],
      element,
    );
    const sizes = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      plot.destroy();
    };
  }, [from, to, times, lines, format, max, gaps, marks, onSelect]);
  return <div ref={holder} role="img" aria-label={label} />;
}

const DAY_SECONDS = 86_400;
const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

/** Times of the day, and days where they begin. */
function timeTicks(_plot: uPlot, ticks: number[], _axis: number, _space: number, step: number): string[] {
  return ticks.map((seconds) => {
    const at = new Date(seconds * 1000);
    const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
    return step >= DAY_SECONDS || isMidnight ? day.format(at) : timeOfDay.format(at);
  });
}

function shade(plot: uPlot, gaps: readonly { from: number; to: number }[], color: string): void {
  const { ctx, bbox } = plot;
  const place = (seconds: number) =>
    Math.min(Math.max(plot.valToPos(seconds, 'x', true), bbox.left), bbox.left + bbox.width);
  ctx.save();
  ctx.fillStyle = color;
  for (const { from, to } of gaps) ctx.fillRect(place(from), bbox.top, place(to) - place(from), bbox.height);
  ctx.restore();
}

function drawMarks(plot: uPlot, marks: readonly number[], color: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.setLineDash([4, 4]);
  for (const seconds of marks) {
    const place = plot.valToPos(seconds, 'x', true);
    if (place < bbox.left || place > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(place, bbox.top);
    ctx.lineTo(place, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
