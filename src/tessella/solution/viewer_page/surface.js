// Values of a map as a surface that turns: WebGL, one colour per corner, light from the side.

import { colour } from "./colours.js";

const VERTEX = `
attribute vec3 place; attribute vec3 tint; attribute vec3 normal;
uniform mat3 turn; uniform vec2 stretch; varying vec3 shade;
void main() {
  vec3 p = turn * place;
  float light = 0.55 + 0.45 * abs(dot(turn * normal, normalize(vec3(0.4, 0.5, 0.8))));
  shade = tint * light;
  gl_Position = vec4(p.xy * stretch, -p.z * 0.3, 1.0);
}`;
const FRAGMENT = "precision mediump float; varying vec3 shade; void main() { gl_FragColor = vec4(shade, 1.0); }";

export class Surface {
  constructor(canvas, redraw) {
    this.canvas = canvas;
    this.angles = [0.6, 0.95];
    this.zoom = 1;
    this.gl = canvas.getContext("webgl", { preserveDrawingBuffer: true });
    if (this.gl) this.program = this.compiled();
    let from = null;
    canvas.addEventListener("pointerdown", (e) => { from = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointerup", () => { from = null; });
    canvas.addEventListener("pointermove", (e) => {
      if (!from) return;
      this.angles[0] += (e.clientX - from[0]) / 150;
      this.angles[1] = Math.min(1.55, Math.max(0, this.angles[1] + (e.clientY - from[1]) / 150));
      from = [e.clientX, e.clientY];
      redraw();
    });
    canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.zoom = Math.min(6, Math.max(0.4, this.zoom * Math.exp(-e.deltaY / 600)));
      redraw();
    }, { passive: false });
  }

  compiled() {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    return program;
  }

  /** Two triangles for every square of the grid that lies inside the domain. */
  fill(values, n, scale, sides) {
    const widest = Math.max(...sides), place = [], tint = [], normal = [];
    const corner = (i, j) => {
      const part = scale.part(values[i * n + j]);
      return [(i / (n - 1) - 0.5) * sides[0] / widest, (j / (n - 1) - 0.5) * sides[1] / widest, (part - 0.5) * 0.5];
    };
    const add = (corners) => {
      const points = corners.map(([i, j]) => corner(i, j));
      const [a, b] = [1, 2].map((k) => points[k].map((c, m) => c - points[0][m]));
      const cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
      const length = Math.hypot(...cross) || 1;
      corners.forEach(([i, j], k) => {
        place.push(...points[k]);
        tint.push(...colour(scale.colours, scale.part(values[i * n + j])).map((c) => c / 255));
        normal.push(...cross.map((c) => c / length));
      });
    };
    for (let i = 0; i + 1 < n; i++) for (let j = 0; j + 1 < n; j++) {
      const square = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
      const known = square.filter(([a, b]) => values[a * n + b] !== null);
      if (known.length >= 3) add(known.slice(0, 3));
      if (known.length === 4) add([square[0], square[2], square[3]]);
    }
    this.count = place.length / 3;
    for (const [name, data] of Object.entries({ place, tint, normal })) this.load(name, data);
  }

  load(name, data) {
    const gl = this.gl, where = gl.getAttribLocation(this.program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(data), gl.STATIC_DRAW);
    gl.enableVertexAttribArray(where);
    gl.vertexAttribPointer(where, 3, gl.FLOAT, false, 0, 0);
  }

  draw() {
    const gl = this.gl, [round, down] = this.angles, { width, height } = this.canvas;
    const [c, s, k, l] = [Math.cos(round), Math.sin(round), Math.cos(down), Math.sin(down)];
    const size = 1.35 * this.zoom, least = Math.min(width, height);
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.enable(gl.DEPTH_TEST);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(this.program);
    const turn = [c, s * k, -s * l, -s, c * k, -c * l, 0, l, k];
    gl.uniformMatrix3fv(gl.getUniformLocation(this.program, "turn"), false, turn);
    gl.uniform2f(gl.getUniformLocation(this.program, "stretch"), size * least / width, size * least / height);
    gl.drawArrays(gl.TRIANGLES, 0, this.count);
  }
}
