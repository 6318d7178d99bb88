/** The plot of a chart, by uPlot. Loaded when a chart is shown. */

import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { byteMarks, type Columns, requestRate, timeMarks } from './chart'
import { bytes } from './format'

export interface Colours {
  text: string
  grid: string
  bytes: string
  requests: string
  workers: string
  throttled: string
}

export interface Course {
  columns: Columns
  /** In seconds since the epoch. */
  throttled: [number, number][]
}

const HEIGHT = 200
/** Seconds between two marks of the time. */
const STEPS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000]
/** The line of workers stays in the lowest third. */
const WORKERS_SCALE = 3

export function plot(target: HTMLElement, colours: Colours, course: () => Course): uPlot {
  const axis = {
    stroke: colours.text,
    grid: { stroke: colours.grid, width: 1 },
    ticks: { show: false },
    font: '12px system-ui',
  }
  const options: uPlot.Options = {
    width: target.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: {
      bytes: { range: (_, __, max) => [0, Math.max(max, 1) * 1.05] },
      requests: { range: (_, __, max) => [0, Math.max(max, 1) * 1.05] },
      workers: { range: (_, __, max) => [0, Math.max(max, 1) * WORKERS_SCALE] },
    },
    axes: [
      {
        ...axis,
        values: (_, times) => timeMarks(times),
        space: 90,
        size: 30,
        incrs: STEPS,
      },
      {
        ...axis,
        scale: 'bytes',
        size: 76,
        splits: (self) => byteMarks(self.scales.bytes?.max ?? 0),
        values: (_, marks) => marks.map((one) => `${bytes(one)}/s`),
      },
      {
        ...axis,
        scale: 'requests',
        side: 1,
        size: 60,
        grid: { show: false },
        values: (_, marks) => marks.map((one) => (Number.isInteger(one) ? requestRate(one) : '')),
      },
    ],
    series: [
      {},
      { scale: 'bytes', stroke: colours.bytes, width: 2 },
      { scale: 'requests', stroke: colours.requests, width: 1.5, dash: [6, 4] },
      { scale: 'workers', stroke: colours.workers, width: 1.5, paths: uPlot.paths.stepped?.({ align: 1 }) },
    ],
    hooks: { drawClear: [(self) => hatch(self, course().throttled, colours.throttled)] },
  }
  return new uPlot(options, table(course().columns), target)
}

export function table(columns: Columns): uPlot.AlignedData {
  return [columns.times, columns.bytes, columns.requests, columns.workers]
}

/** Fills spans of throttling, with lines across them for those who see no colour. */
function hatch(self: uPlot, spans: [number, number][], colour: string): void {
  const { ctx, bbox } = self
  for (const [begin, end] of spans) {
    const left = Math.max(self.valToPos(begin, 'x', true), bbox.left)
    const right = Math.min(self.valToPos(end, 'x', true), bbox.left + bbox.width)
    const width = Math.max(right - left, 2)
    if (right < bbox.left || left > bbox.left + bbox.width) continue
    ctx.save()
    ctx.beginPath()
    ctx.rect(left, bbox.top, width, bbox.height)
    ctx.clip()
    ctx.fillStyle = colour
    ctx.globalAlpha = 0.14
    ctx.fillRect(left, bbox.top, width, bbox.height)
    ctx.globalAlpha = 0.6
    ctx.strokeStyle = colour
    ctx.beginPath()
    for (let at = left - bbox.height; at < left + width; at += 10) {
      ctx.moveTo(at, bbox.top + bbox.height)
      ctx.lineTo(at + bbox.height, bbox.top)
    }
    ctx.stroke()
    ctx.restore()
  }
}
